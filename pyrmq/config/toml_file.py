"""Settings in a TOML file that somebody wrote."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pyrmq.errors import ConfigError

T = TypeVar("T")


def read(path: Path, shown: str, parse: Callable[[str], T], most: int, instead: str) -> T:
    """What `parse` makes of the text of a file; OSError. Texts of ConfigError begin with `shown`,
    the path; `instead` says what a file of more than `most` bytes must be."""
    with path.open("rb") as file:
        raw = file.read(most + 1)
    if len(raw) > most:
        raise ConfigError(f"{shown} has more than {most} bytes: {instead}")
    try:
        return parse(raw.decode())
    except UnicodeDecodeError:
        raise ConfigError(f"{shown} is not UTF-8") from None
    except ConfigError as e:
        raise ConfigError(f"{shown}: {e}") from None


def table(text: str) -> dict[str, Any]:
    """The top of a text. ConfigError."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as e:
        raise ConfigError(f"it is no TOML: {e}") from None
