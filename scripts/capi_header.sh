#!/bin/sh
# Writes native/include/pyrmq_capi.h anew from native/crates/capi. Its tests fail while it is stale.
set -eu
cd "$(dirname "$0")/.."
PYRMQ_WRITE_HEADER=1 cargo test --locked --quiet -p pyrmq-capi --lib -- header_tests
