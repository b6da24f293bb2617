#!/usr/bin/env bash
# Builds spark_ext/jars/pyrmq-spark.jar: the engine's library for a JVM, and Spark's reader in Java.
#
#   scripts/spark_jar.sh
#
#   PYRMQ_JAR_PROFILE=release    or dev: not optimized, with assertions, of what `cargo test` has compiled
#   PYRMQ_JAR_CPUS=              x86_64 and aarch64, of which any: built with zig for glibc 2.17 and newer;
#                                needs `pip install cargo-zigbuild ziglang` and `rustup target add`.
#                                Empty: this machine's CPU alone, for its glibc and newer
#   PYRMQ_JAR_OFFLINE=           1: Maven and cargo ask no server
set -euo pipefail
cd "$(dirname "$0")/.."

PROFILE=${PYRMQ_JAR_PROFILE:-release}
CPUS=${PYRMQ_JAR_CPUS:-}
OUT=spark_ext/jars/pyrmq-spark.jar
LIBRARIES=$PWD/spark_jvm/target/libraries
missing=0

need() { # what, how to get it
    echo "pyrmq: $1 is missing." >&2
    echo "       $2" >&2
    missing=1
}

command -v cargo >/dev/null || need "a Rust toolchain (cargo 1.89 or newer)" "Install it with rustup, see https://rustup.rs"
command -v cc >/dev/null || need "a C compiler (cc)" "Debian and Ubuntu: apt-get install gcc"
if ! command -v javac >/dev/null; then
    need "a Java compiler (javac, 17 or newer)" "Debian and Ubuntu: apt-get install openjdk-17-jdk-headless"
elif [ "$(javac -version 2>&1 | sed 's/^javac \([0-9]*\).*/\1/')" -lt 17 ]; then
    need "Java 17 or newer (this is $(javac -version 2>&1))" "Set JAVA_HOME and PATH to a newer one"
fi
"${PYTHON:-python3}" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
    need "Python 3.11 or newer (${PYTHON:-python3})" "It lists the licences of what is inside: PYTHON=/path/to/python3.12"
command -v mvn >/dev/null || need "Maven (mvn)" "Debian and Ubuntu: apt-get install maven"
if [ -n "$CPUS" ] && ! command -v cargo-zigbuild >/dev/null; then
    need "cargo-zigbuild, to build for $CPUS" "pip install cargo-zigbuild ziglang"
fi
case $PROFILE in
release | dev) ;;
*) need "a profile of that name ($PROFILE)" "PYRMQ_JAR_PROFILE is release or dev" ;;
esac
[ "$missing" = 0 ] || exit 1

OFFLINE=${PYRMQ_JAR_OFFLINE:-}
TARGET_DIR=${CARGO_TARGET_DIR:-target}
FOLDER=${PROFILE/#dev/debug} # where cargo puts it
rm -rf "$LIBRARIES"

put() { # library, cpu
    mkdir -p "$LIBRARIES/native/linux-$2"
    cp "$1" "$LIBRARIES/native/linux-$2/libpyrmq_jvm.so"
}

CARGO=(--quiet --locked --profile "$PROFILE" -p pyrmq-jvm)
[ -z "$OFFLINE" ] || CARGO+=(--offline)
if [ -z "$CPUS" ]; then
    case $(uname -m) in
    x86_64 | aarch64) ;;
    *)
        echo "pyrmq: there is no native library for the CPU $(uname -m); x86_64 and aarch64 are known" >&2
        exit 1
        ;;
    esac
    cargo rustc "${CARGO[@]}" --lib --crate-type cdylib -- -C strip=symbols
    put "$TARGET_DIR/$FOLDER/libpyrmq_jvm.so" "$(uname -m)"
else
    for cpu in $CPUS; do
        cargo zigbuild "${CARGO[@]}" --target "$cpu-unknown-linux-gnu.2.17" --config "profile.$PROFILE.strip='symbols'"
        put "$TARGET_DIR/$cpu-unknown-linux-gnu/$FOLDER/libpyrmq_jvm.so" "$cpu"
    done
fi

"${PYTHON:-python3}" scripts/licences.py jar --check
rm -rf spark_jvm/target/licences
"${PYTHON:-python3}" scripts/licences.py jar --texts spark_jvm/target/licences

VERSION=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
MAVEN=(-B -q -f spark_jvm/pom.xml "-Dpyrmq.version=$VERSION" "-Dnative.folder=$LIBRARIES" "-Dlicences.folder=$PWD/spark_jvm/target/licences")
# What is in the local repository is used without asking for newer ones.
[ -z "$OFFLINE" ] || MAVEN+=(-o)
if ! mvn "${MAVEN[@]}" package; then
    echo "pyrmq: Maven failed. The first build needs Maven Central (or a mirror in ~/.m2/settings.xml) once;" >&2
    echo "       later ones work with PYRMQ_JAR_OFFLINE=1." >&2
    exit 1
fi
mkdir -p "$(dirname "$OUT")"
cp spark_jvm/target/pyrmq-spark.jar "$OUT.new"
mv "$OUT.new" "$OUT"
echo "$OUT: version $VERSION, $(du -k "$OUT" | cut -f1) KiB, $(cd "$LIBRARIES/native" && echo *)"
