#!/usr/bin/env bash
# Builds the sdist, from it a wheel for each Python found (3.11 to 3.14), checks what each contains
# (wheel_contents.py) and tries it outside of the checkout (wheel_try.py). 3.15 is tried as well, once
# all that pyrmq depends on has wheels for it.
#
#   scripts/dist_check.sh [--one]       --one: only for $PYTHON (python3)
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
"") versions="3.11 3.12 3.13 3.14 3.15" ;;
--one) versions=$("${PYTHON:-python3}" -c 'import sys; print("%d.%d" % sys.version_info[:2])') ;;
*) echo "dist-check: $1 is not --one"; exit 2 ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CARGO_TARGET_DIR="$PWD/target"

find_python() { # a python of this version: on the PATH, or one of pyenv's
    local version=$1 candidate
    for candidate in "${PYTHON:-python3}" "python$version" "$HOME"/.pyenv/versions/"$version".*/bin/python; do
        if "$candidate" -c "import sys; sys.exit(sys.version_info[:2] != tuple(map(int, '$version'.split('.'))))" 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
}

installs() { # whether everything that the wheel depends on can be had for this python
    local python=$1
    "$python" - >"$work/needs" <<'NEEDS'
import tomllib
with open("pyproject.toml", "rb") as file:
    print(*tomllib.load(file)["project"]["dependencies"], sep="\n")
NEEDS
    "$python" -m pip download --quiet --disable-pip-version-check --only-binary :all: \
        --dest "$work/needed" --requirement "$work/needs" >/dev/null 2>&1
}

first=1
for version in $versions; do
    python=$(find_python "$version" || true)
    if [ -z "$python" ]; then
        echo "dist-check: no Python $version on this machine, skipped"
        continue
    fi
    if [ "$version" = 3.15 ] && ! installs "$python"; then
        echo "dist-check: not all dependencies have wheels for Python $version, skipped"
        continue
    fi
    "$python" -m venv "$work/build$version"
    "$work/build$version/bin/pip" install --quiet --disable-pip-version-check build
    if [ "$first" = 1 ]; then
        "$work/build$version/bin/python" -m build --sdist --outdir "$work" . >"$work/log" 2>&1 ||
            { cat "$work/log"; exit 1; }
        mkdir "$work/source"
        tar -xzf "$work"/*.tar.gz -C "$work/source" --strip-components 1
        first=0
    fi
    "$work/build$version/bin/python" -m build --wheel --outdir "$work/wheel$version" "$work/source" \
        >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    wheel=$(echo "$work/wheel$version"/*.whl)
    "$python" scripts/wheel_contents.py "$wheel"
    extras="--extra console --extra mcp"
    [ "$version" != 3.15 ] || extras=""
    # shellcheck disable=SC2086 # several words
    "$python" scripts/wheel_try.py "$wheel" $extras
    echo "dist-check: sdist -> wheel -> install -> demo, bench works on Python $version"
done
[ "$first" = 0 ] || { echo "dist-check: no Python 3.11 to 3.15 found"; exit 1; }
