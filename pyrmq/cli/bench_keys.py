"""Who `pyrmq bench` signs its requests as."""

from __future__ import annotations

import os
from pathlib import Path

from pyrmq.cli.tools_file import ACCESS_KEY, SECRET_KEY, credentials
from pyrmq.errors import ConfigError
from pyrmq.net.client.requests import Credentials

SECRET_KEY_FILE = "PYRMQ_SECRET_KEY_FILE"
MAX_SECRET = 1024
"""Bytes of a secret key."""


def bench_credentials(access_key: str | None, secret_key_file: Path | None) -> Credentials | None:
    """Those of the options, else of the environment, else of `conf/tools.yml` below ROCKETMQ_HOME;
    None where there are none. ConfigError for one key without the other, for two secret keys, and
    for a file that cannot be read."""
    file = secret_key_file
    if file is None and (named := os.environ.get(SECRET_KEY_FILE)):
        if os.environ.get(SECRET_KEY):
            raise ConfigError(f"{SECRET_KEY} and {SECRET_KEY_FILE} exclude each other: unset one")
        file = Path(named)
    if access_key is None and file is None:
        return credentials()
    access = access_key or os.environ.get(ACCESS_KEY, "")
    secret = _secret(file) if file is not None else os.environ.get(SECRET_KEY, "")
    if not access or not secret:
        raise ConfigError(
            "an access key and a secret key go together: --access-key and --secret-key-file, or "
            f"{ACCESS_KEY} and {SECRET_KEY_FILE} or {SECRET_KEY}"
        )
    return Credentials(access, secret)


def _secret(path: Path) -> str:
    """The text of a file without the end of its line."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_SECRET + 3)
    except OSError as e:
        raise ConfigError(f"{path}: the secret key cannot be read: {e.strerror}") from e
    try:
        text = raw.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        text = ""
    if not text or len(text) > MAX_SECRET or "\n" in text:
        raise ConfigError(f"{path}: one line with a secret key of 1 to {MAX_SECRET} bytes expected")
    return text
