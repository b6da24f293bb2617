#!/bin/sh
# Fuzzes the engine's readers: one target after the other, each for a time or a number of runs.
#
#   scripts/fuzz.sh [TARGET...]            all targets, or those that are named
#
#   PYRMQ_FUZZ_SECONDS=60                  time for each target
#   PYRMQ_FUZZ_RUNS=                       number of runs for each target, instead of the time
#   PYRMQ_FUZZ_SANITIZER=address           or none: faster, for targets that meet safe code only
#
# Seeds are native/fuzz/corpus (made by `cargo run --example seeds` in native/fuzz). What a run finds
# new goes to target/fuzz/work/TARGET and is used again by the next run. An input that breaks a
# target is kept in target/fuzz/found; the script ends with 1 and says how to repeat it.
set -eu
cd "$(dirname "$0")/.."

SECONDS_EACH=${PYRMQ_FUZZ_SECONDS:-60}
RUNS=${PYRMQ_FUZZ_RUNS:-}
SANITIZER=${PYRMQ_FUZZ_SANITIZER:-address}
TARGET_DIR=$PWD/target/fuzz
HOST=x86_64-unknown-linux-gnu
ALL="record crc properties pop text checkpoint entries index session header send_fields json send signed tls arrow jvm recover"

if ! cargo +nightly --version >/dev/null 2>&1; then
    echo "fuzz: a nightly Rust toolchain is needed for coverage and sanitizers." >&2
    echo "Get it with: rustup toolchain install nightly --profile minimal" >&2
    exit 2
fi
if ! command -v "${CXX:-c++}" >/dev/null 2>&1; then
    echo "fuzz: a C++ compiler is needed for libFuzzer (set CXX, or install g++)." >&2
    exit 2
fi
case $SANITIZER in
address | none) ;;
*)
    echo "fuzz: PYRMQ_FUZZ_SANITIZER is address or none, not $SANITIZER" >&2
    exit 2
    ;;
esac

# What cargo-fuzz would set, so that the tool itself is not needed.
FLAGS="--cfg fuzzing -Cpasses=sancov-module"
for option in level=4 inline-8bit-counters pc-table trace-compares; do
    FLAGS="$FLAGS -Cllvm-args=-sanitizer-coverage-$option"
done
[ "$SANITIZER" = none ] || FLAGS="$FLAGS -Zsanitizer=$SANITIZER"
BUILD=$TARGET_DIR/$SANITIZER
RUSTFLAGS=$FLAGS cargo +nightly build --quiet --locked --release --bins --target "$HOST" \
    --manifest-path native/fuzz/Cargo.toml --target-dir "$BUILD"

# Stores are made and thrown away by the thousand: in memory where that is possible.
[ -w /dev/shm ] && TMPDIR=/dev/shm
TMPDIR=$(mktemp -d "${TMPDIR:-/tmp}/pyrmq-fuzz.XXXXXX")
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
trap 'exit 130' INT TERM
export ASAN_OPTIONS="detect_leaks=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
mkdir -p "$TARGET_DIR/found"

# Longest input of a target: what it reads of use, not more.
max_len() {
    case $1 in
    text) echo 64 ;;
    checkpoint) echo 64 ;;
    properties | pop) echo 256 ;;
    entries | index | header | send_fields | json) echo 512 ;;
    record | crc) echo 1024 ;;
    session | send | signed | arrow | jvm | tls) echo 2048 ;;
    *) echo 9000 ;;
    esac
}

broken=0
for target in ${*:-$ALL}; do
    work=$TARGET_DIR/work/$target
    mkdir -p "$work"
    log=$TMPDIR/$target.log
    limit="-max_total_time=$SECONDS_EACH"
    [ -z "$RUNS" ] || limit="-runs=$RUNS"
    if "$BUILD/$HOST/release/$target" "$limit" -max_len="$(max_len "$target")" -timeout=20 \
        -rss_limit_mb=4096 -print_final_stats=1 -artifact_prefix="$TARGET_DIR/found/$target-" \
        "$work" "native/fuzz/corpus/$target" >"$log" 2>&1; then
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
        rate=$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log")
        cover=$(sed -n 's/.*DONE *\(cov: [0-9]* ft: [0-9]*\) .*/\1/p' "$log" | tail -1)
        echo "fuzz: $target: $runs runs, $rate a second, $cover"
    else
        broken=1
        grep -A3 -E 'panicked at|^==[0-9]+==ERROR|^SUMMARY' "$log" | head -30
        input=$(sed -n 's/.*Test unit written to //p' "$log" | tail -1)
        echo "fuzz: $target is broken; again: $BUILD/$HOST/release/$target $input" >&2
    fi
done
exit $broken
