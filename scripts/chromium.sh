#!/usr/bin/env bash
# Chromium for the tests of the console, from Debian's packages where it is missing.
set -euo pipefail
if command -v chromium >/dev/null || command -v google-chrome >/dev/null; then
    exit 0
fi
if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
    echo "Chromium is not on PATH: install the package chromium (or Google Chrome)." >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
for pause in 5 20 0; do # a mirror may be away for a moment
    if apt-get -qq update && apt-get -qq install --yes --no-install-recommends chromium >/dev/null; then
        exit 0
    fi
    sleep "$pause"
done
echo "Chromium could not be installed: see above." >&2
exit 1
