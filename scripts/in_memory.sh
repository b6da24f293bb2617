#!/usr/bin/env bash
# Runs a command whose temporary files are in memory, where this machine has enough of it: tests that
# fill and close stores mostly wait for the disk. Whoever sets TMPDIR has chosen.
#
#   scripts/in_memory.sh COMMAND [ARGUMENT…]
set -euo pipefail
memory=/dev/shm
enough=$((4 << 20)) # KiB

room() { # in KiB; 0 where programs may not be run: containers often have a small one for data
    [ -w "$memory" ] && ! grep -q " $memory [^ ]* [^ ]*\bnoexec\b" /proc/mounts || { echo 0; return; }
    df --output=avail -k "$memory" | tail -1
}

free() {
    awk '/^MemAvailable:/ { print $2 }' /proc/meminfo
}

if [ -n "${TMPDIR:-}" ] || [ "$(room)" -lt "$enough" ] || [ "$(free)" -lt "$enough" ]; then
    exec "$@"
fi
folder=$(mktemp -d "$memory/pyrmq-tests-XXXXXX")
trap 'rm -rf "$folder"' EXIT
TMPDIR=$folder "$@"
