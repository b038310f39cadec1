#!/bin/sh
# make-wheels.sh [--spark] [DIR]: this tree and everything it needs, as wheels, for the Python that runs here (or $PYTHON).
# The one step of building an image that may need a package index; the image build itself needs none.
#
#     DIR/pier     this tree
#     DIR/node     what a node needs
#     DIR/spark    what Spark needs beside that, with Java
#     DIR/pip      what installs them
set -eu
extras=""
[ "${1:-}" = "--spark" ] && { extras="[spark]"; shift; }
tree=$(cd "$(dirname "$0")/.." && pwd)
out=${1:-$tree/docker/wheels}
python=${PYTHON:-$tree/.venv/bin/python}
[ -x "$python" ] || python=python3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# From a copy: building leaves folders behind in the tree it builds.
mkdir "$work/tree"
(cd "$tree" && tar -c --exclude=./.git --exclude=./.venv --exclude=./docker/wheels .) | tar -x -C "$work/tree"
wheel() {
    "$python" -m pip wheel --quiet --disable-pip-version-check -c "$tree/constraints.txt" -w "$@"
}
wheel "$work/node" "$work/tree"
wheel "$work/pip" --no-deps pip
[ -z "$extras" ] || wheel "$work/spark" "$work/tree$extras"
mkdir -p "$out"
for part in pier node spark pip; do
    rm -rf "${out:?}/$part"
    mkdir "$out/$part"
done
mv "$work"/node/pier-*.whl "$out/pier"
for found in "$work"/spark/*.whl; do
    [ ! -e "$found" ] || [ -e "$work/node/${found##*/}" ] || case $found in */pier-*) ;; *) mv "$found" "$out/spark" ;; esac
done
mv "$work"/node/*.whl "$out/node"
mv "$work"/pip/*.whl "$out/pip"
