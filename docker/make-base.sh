#!/bin/sh
# make-base.sh [TAG]: a base image with Debian's Python, without a registry: debootstrap, trimmed, docker import.
# Needs root, debootstrap and a Debian mirror ($MIRROR). Debian 12 has Python 3.11, for which the wheels must be made.
set -eu
tag=${1:-pier-base}
suite=${SUITE:-bookworm}
mirror=${MIRROR:-http://deb.debian.org/debian}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
debootstrap --variant=minbase --include=python3 "$suite" "$work/root" "$mirror" >"$work/log" 2>&1 || {
    tail -5 "$work/log" >&2
    exit 1
}
cd "$work/root"
rm -rf var/cache/apt/* var/lib/apt/lists/* var/log/* usr/share/doc/* usr/share/man/* usr/share/locale/* usr/share/info/*
tar -c . | docker import --change 'CMD ["python3"]' - "$tag" >/dev/null
echo "made $tag"
