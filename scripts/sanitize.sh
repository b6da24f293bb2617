#!/bin/sh
# Runs the engine's own tests under Miri, AddressSanitizer and ThreadSanitizer.
#
#   scripts/sanitize.sh [miri|address|thread...]       all three, or those that are named
#
# Miri executes what is neither system call nor C (formats, filter, frames) and finds undefined
# behaviour of any kind; the sanitizers run everything, the store with its mapped files and threads
# included. The standard library is built with ThreadSanitizer, as its locks are unknown to it
# otherwise. What is built goes to target/sanitize.
set -eu
cd "$(dirname "$0")/.."

HOST=x86_64-unknown-linux-gnu
WHAT=${*:-miri address thread}

need() {
    echo "sanitize: $1 is missing." >&2
    echo "Get it with: $2" >&2
    exit 2
}

cargo +nightly --version >/dev/null 2>&1 ||
    need "a nightly Rust toolchain" "rustup toolchain install nightly --profile minimal"
SYSROOT=$(rustc +nightly --print sysroot)

# The nightly toolchain's own source, for what builds the standard library.
need_source() {
    [ -d "$SYSROOT/lib/rustlib/src/rust/library/std" ] ||
        need "the source of the standard library (rust-src)" \
            "rustup component add --toolchain nightly rust-src"
}

run_miri() {
    cargo +nightly miri --version >/dev/null 2>&1 ||
        need "Miri" "rustup component add --toolchain nightly miri rust-src"
    need_source
    # unique_key asks the C library for the date; sessions with a store behind them map files.
    miri -p pyrmq-format -- --skip unique_key --skip every_short_length --skip long_inputs
    miri -p pyrmq-broker -- wire:: --skip session
    # One message at a time, and few of them.
    miri -p pyrmq-sign -- --skip all_lengths --skip lanes_at
}

# Few cases and not every length, as Miri is some hundred times slower. The vector code is only met
# when the features are there at compile time; 512 bits are unknown to Miri.
miri() {
    PROPTEST_CASES=4 MIRIFLAGS="-Zmiri-disable-isolation" \
        RUSTFLAGS="-Ctarget-feature=+ssse3,+sse4.1,+pclmulqdq,+avx2,+vpclmulqdq" \
        cargo +nightly miri test --locked --lib --target-dir target/sanitize/miri "$@"
}

# Everything: `sign` with its vector code, `tls` with ring's C, and the TLS of `server` among it.
run_address() {
    RUSTFLAGS="-Zsanitizer=address" ASAN_OPTIONS="detect_stack_use_after_return=1" \
        cargo +nightly test --locked --lib --target "$HOST" --target-dir target/sanitize/address
}

run_thread() {
    need_source
    thread -p pyrmq-store
    thread -p pyrmq-broker -- wire::
    thread -p pyrmq-server
    thread -p pyrmq-capi
}

thread() {
    RUSTFLAGS="-Zsanitizer=thread" TSAN_OPTIONS="halt_on_error=1" \
        cargo +nightly test --locked --lib -Zbuild-std --target "$HOST" \
        --target-dir target/sanitize/thread "$@"
}

for one in $WHAT; do
    case $one in
    miri | address | thread)
        echo "sanitize: $one"
        "run_$one"
        ;;
    *)
        echo "sanitize: $one is neither miri nor address nor thread" >&2
        exit 2
        ;;
    esac
done
