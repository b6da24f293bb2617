"""The configuration of the tools: `conf/tools.yml` below ROCKETMQ_HOME, where RocketMQ's mqadmin
has its access key and secret key. `expect` is ours."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyrmq.errors import ConfigError

FILE = Path("conf/tools.yml")
MAX_SIZE = 1 << 20


def tools_file() -> Path | None:
    """Where it would be; None without ROCKETMQ_HOME."""
    home = os.environ.get("ROCKETMQ_HOME")
    return Path(home) / FILE if home else None


def read(path: Path) -> Mapping[str, Any]:
    """Its values, all numbers as texts; nothing if it is not there. ConfigError if it cannot be
    read, or is no YAML of names and values."""
    import yaml

    try:
        with path.open("rb") as file:
            raw = file.read(MAX_SIZE + 1)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as e:
        raise ConfigError(f"{path} cannot be read: {e.strerror}") from e
    try:  # with texts for all values: a key may look like a number
        found = yaml.load(raw, yaml.BaseLoader) if len(raw) <= MAX_SIZE else None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ConfigError(
            f"{path} is not of `name: value` lines: accessKey, secretKey and expect are read"
        )
    return found
