#!/usr/bin/env bash
# Says plainly what a build needs and this machine lacks.
set -u
python="${PYTHON:-python3}"
missing=0

need() { # what, how to get it
    echo "pyrmq: $1 is missing." >&2
    echo "       $2" >&2
    missing=1
}

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    need "Python 3.11 or newer ($python)" \
        "Install it from your distribution or python.org, or name it: make PYTHON=/path/to/python3.12"
elif ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
    need "Python's venv module" "Debian and Ubuntu: apt-get install python3-venv"
fi
if ! command -v cargo >/dev/null; then
    need "a Rust toolchain (cargo 1.89 or newer)" "Install it with rustup, see https://rustup.rs"
fi
if ! command -v cc >/dev/null; then
    need "a C compiler (cc)" "Debian and Ubuntu: apt-get install gcc"
fi
exit "$missing"
