#!/usr/bin/env bash
# Builds the sdist, from it a wheel for each Python found (3.11 to 3.14), installs each wheel into
# an empty environment and runs a send and a read outside of the checkout; PySpark and pyarrow must
# not be needed for that, though the wheel brings the Spark packages along. 3.15 is tried as well,
# once all that pyrmq depends on has wheels for it.
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

spark_packages="spark_ext pyspark_rocketmq pyspark_pyrmq"

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
        for package in $spark_packages; do
            diff <(cd "$package" && find . -name '*.py' | sort) \
                <(cd "$work/source/$package" && find . -name '*.py' | sort) ||
                { echo "dist-check: the sdist lacks files of $package"; exit 1; }
        done
        first=0
    fi
    "$work/build$version/bin/python" -m build --wheel --outdir "$work/wheel$version" "$work/source" \
        >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    wheel=$(echo "$work/wheel$version"/*.whl)
    names=$("$python" -m zipfile -l "$wheel")
    for module in _native engine; do
        grep -q "pyrmq/$module\..*so" <<<"$names" ||
            { echo "dist-check: $wheel lacks pyrmq.$module"; exit 1; }
    done
    for package in $spark_packages; do
        (cd "$work/source" && find "$package" -name '*.py') | while read -r file; do
            grep -q "^$file " <<<"$names" || { echo "dist-check: $wheel lacks $file"; exit 1; }
        done
    done
    "$python" -m venv "$work/use$version"
    "$work/use$version/bin/pip" install --quiet --disable-pip-version-check "$wheel"
    (cd "$work" && "$work/use$version/bin/python" -m pyrmq.demo --messages 40 >"$work/log" 2>&1) ||
        { cat "$work/log"; exit 1; }
    for kind in systemd docker compose kubernetes; do
        "$work/use$version/bin/pyrmq" deploy "$kind" --out "$work/deploy$version/$kind" >/dev/null
        diff -r --exclude='__pycache__' "pyrmq/deploy/$kind" "$work/deploy$version/$kind" ||
            { echo "dist-check: the wheel lacks files of pyrmq deploy $kind"; exit 1; }
    done
    (cd "$work" && "$work/use$version/bin/python" -c "
import importlib.util, $(tr ' ' ',' <<<"$spark_packages")
from pyrmq.engine import RELEASE_BUILD
assert RELEASE_BUILD, 'the wheel has a development engine'
for name in ('pyspark', 'pyarrow', 'numpy'):
    assert importlib.util.find_spec(name) is None, name + ' came without the extra'
") || { echo "dist-check: the wheel's packages do not import without PySpark, or are built for development"; exit 1; }
    (cd "$work" && "$work/use$version/bin/pyrmq" bench send --embedded --count 2000 --verify --json result.json >"$work/log" 2>&1) ||
        { cat "$work/log"; echo "dist-check: pyrmq bench does not work right after pip install"; exit 1; }
    (cd "$work" && "$work/use$version/bin/pyrmq" bench peers --peer floor --peer pyrmq --load 8x128 --rounds 1 \
        --duration 0.5 --warmup 0 --html peers.html >"$work/log" 2>&1 && test -s peers.html) ||
        { cat "$work/log"; echo "dist-check: pyrmq bench peers does not work right after pip install"; exit 1; }
    echo "dist-check: sdist -> wheel -> install -> demo, bench works on Python $version"
done
[ "$first" = 0 ] || { echo "dist-check: no Python 3.11 to 3.15 found"; exit 1; }
