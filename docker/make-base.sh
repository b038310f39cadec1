#!/bin/sh
# make-base.sh [TAG]: a base image with Debian's Python, without a registry: debootstrap, trimmed, docker import.
# Needs root and a Debian mirror ($MIRROR); debootstrap is taken from Debian's packages for the time being where it is
# not installed. Debian 12 has Python 3.11, for which the wheels must be made.
set -eu
tag=${1:-pier-base}
suite=${SUITE:-bookworm}
mirror=${MIRROR:-http://deb.debian.org/debian}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# fetch_debootstrap: unpacks the package into the work folder; nothing is installed, and apt's own lists stay as they are.
fetch_debootstrap() {
    mkdir -p "$work/lists/partial" "$work/tool"
    own="-o Dir::State::Lists=$work/lists -o APT::Sandbox::User=root"
    (
        cd "$work"
        # shellcheck disable=SC2086
        apt-get $own -qq update && apt-get $own -qq download debootstrap && dpkg-deb -x debootstrap_*.deb tool
    ) >"$work/log" 2>&1 || {
        echo "make-base.sh: no debootstrap here, and none to be had:" >&2
        tail -3 "$work/log" >&2
        exit 1
    }
    export DEBOOTSTRAP_DIR="$work/tool/usr/share/debootstrap"
    PATH="$PATH:$work/tool/usr/sbin"
}

command -v debootstrap >/dev/null || fetch_debootstrap
debootstrap --variant=minbase --include=python3 "$suite" "$work/root" "$mirror" >"$work/log" 2>&1 || {
    tail -5 "$work/log" >&2
    exit 1
}
cd "$work/root"
rm -rf var/cache/apt/* var/lib/apt/lists/* var/log/* usr/share/doc/* usr/share/man/* usr/share/locale/* usr/share/info/*
tar -c . | docker import --change 'CMD ["python3"]' - "$tag" >/dev/null
echo "made $tag"
