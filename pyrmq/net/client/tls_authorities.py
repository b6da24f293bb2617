"""The files of the authorities that this machine trusts, for TLS in the engine."""

from __future__ import annotations

import ssl
from pathlib import Path

SYSTEM_FILES = 1000
"""Files that are read at most."""


def system_files() -> list[Path]:
    """The files of the authorities that this machine trusts, as OpenSSL finds them."""
    paths = ssl.get_default_verify_paths()
    if paths.cafile is not None:
        return [Path(paths.cafile)]
    if paths.capath is None:
        return []
    return sorted(path for path in Path(paths.capath).iterdir() if path.is_file())[:SYSTEM_FILES]
