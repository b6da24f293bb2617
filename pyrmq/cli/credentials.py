"""Whose name commands of administration sign their requests with."""

from __future__ import annotations

import os
from pathlib import Path

from pyrmq.errors import ConfigError
from pyrmq.net.signing import Credentials

ACCESS_KEY, SECRET_KEY = "PYRMQ_ACCESS_KEY", "PYRMQ_SECRET_KEY"
FILE = Path("conf/tools.yml")
MAX_SIZE = 1 << 20


def credentials() -> Credentials | None:
    """Those of PYRMQ_ACCESS_KEY and PYRMQ_SECRET_KEY, or else those of `conf/tools.yml` below
    ROCKETMQ_HOME, where RocketMQ's mqadmin has them; None where neither has both. ConfigError for
    one key without the other, and for a file that cannot be meant."""
    given = os.environ.get(ACCESS_KEY, ""), os.environ.get(SECRET_KEY, "")
    if not any(given) and (home := os.environ.get("ROCKETMQ_HOME")):
        given = _of_file(Path(home) / FILE)
    if all(given):
        return Credentials(*given)
    if any(given):
        raise ConfigError(f"an access key and a secret key go together: {ACCESS_KEY}, {SECRET_KEY}")
    return None


def _of_file(path: Path) -> tuple[str, str]:
    import yaml

    try:
        with path.open("rb") as file:
            raw = file.read(MAX_SIZE + 1)
    except (FileNotFoundError, NotADirectoryError):
        return "", ""
    except OSError as e:
        raise ConfigError(f"{path} cannot be read: {e.strerror}") from e
    try:  # with texts for all values: a key may look like a number
        found = yaml.load(raw, yaml.BaseLoader) if len(raw) <= MAX_SIZE else None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ConfigError(f"{path} is not of `name: value` lines: accessKey and secretKey are read")
    keys = [found.get(name) for name in ("accessKey", "secretKey")]
    access, secret = ("" if key is None else str(key).strip() for key in keys)
    return access, secret
