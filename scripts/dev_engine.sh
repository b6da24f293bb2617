#!/bin/sh
# Builds the engine into pyrmq/ for development: only what changed, without link-time optimisation, and
# with assertions. An edit is in place within a minute.
#
#   scripts/dev_engine.sh PYTHON
#
# `pyrmq.engine.RELEASE_BUILD` is False then, and benchmarks refuse to run. Wheels and `make setup`
# build with the profile `release`, whatever lies here.
set -eu
# Cargo asks this interpreter from folders of its own.
case $1 in
/*) PYO3_PYTHON=$1 ;;
*/*) PYO3_PYTHON=$PWD/$1 ;;
*) PYO3_PYTHON=$(command -v "$1") ;;
esac
cd "$(dirname "$0")/.."
export PYO3_PYTHON

mkdir -p build
"$PYO3_PYTHON" build_backend/cython_build.py >build/cython.log 2>&1 ||
    { cat build/cython.log >&2; exit 1; }
cargo build --profile dev-engine --locked --quiet --package pyrmq-native --features python --lib
suffix=$("$PYO3_PYTHON" -c "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'))")
# Renamed into its place, as a process may have the old one mapped.
cp "${CARGO_TARGET_DIR:-target}/dev-engine/lib_native.so" "pyrmq/_native$suffix.new"
mv -f "pyrmq/_native$suffix.new" "pyrmq/_native$suffix"
echo "pyrmq: built a development engine; benchmarks need \`make setup\`"
