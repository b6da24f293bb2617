"""RocketMQ's property files (`-c FILE`), and typed settings read from them.

A settings class is a frozen dataclass whose fields are `snake_case` forms of RocketMQ's keys.
Keys are told apart: those with a field are set, those in `fixed` accept only the values that this
implementation has, those in `without_effect` are reported, everything else is an error.
"""

from __future__ import annotations

import dataclasses
import difflib
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from pyrmq.errors import ConfigError
from pyrmq.escape import escape

log = logging.getLogger(__name__)

T = TypeVar("T")
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """Java's property syntax: `key=value`, `key: value` or `key value`, `#` and `!` comments,
    backslash escapes and continued lines."""
    out: dict[str, str] = {}
    # Java's line ends only: other separators that Python knows belong to the text.
    lines = iter(re.split(r"\r\n|\r|\n", text))
    for raw in lines:
        line = raw.lstrip()
        if not line or line[0] in "#!":
            continue
        while len(line) - len(line.rstrip("\\")) & 1:
            line = line[:-1] + next(lines, "").lstrip()
        match = re.match(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*(.*)", line, re.DOTALL)
        assert match is not None  # both parts may be empty
        key, value = (_unescape(part) for part in match.groups())
        out[key] = value.rstrip()
    return out


def _unescape(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        code = match.group(1)
        return chr(int(code[1:], 16)) if len(code) == 5 else _ESCAPES.get(code, code)

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", one, text)


def load_file(path: Path) -> dict[str, str]:
    try:
        return parse_properties(path.read_text(encoding="utf-8"))
    except OSError as e:
        raise ConfigError(f"cannot read {path}: {e.strerror}") from e
    except UnicodeDecodeError as e:
        raise ConfigError(f"{path} is not UTF-8: {e}") from e


_ODD_KEYS = {"broker_ip1": "brokerIP1", "check_crc_on_recover": "checkCRCOnRecover"}


def key_of(field: str) -> str:
    """RocketMQ's key for a field name."""
    return _ODD_KEYS.get(field) or re.sub(r"_(\w)", lambda m: m.group(1).upper(), field)


def _value(key: str, text: str, kind: Any) -> Any:
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise ConfigError(f"{key}={text}: true or false expected")
        return text.lower() == "true"
    if kind is int:
        if not re.fullmatch(r"-?\d{1,18}", text):
            raise ConfigError(f"{key}={text}: a number expected")
        return int(text)
    return Path(text).expanduser() if kind is Path else text


def settings(
    cls: type[T],
    values: Mapping[str, str],
    *,
    fixed: Mapping[str, tuple[str, ...]],
    without_effect: Mapping[str, str],
    bounds: Mapping[str, tuple[int, int]],
) -> T:
    """Builds `cls` from the values of a file. ConfigError names the key at fault."""
    kinds = get_type_hints(cls)
    names = {key_of(f.name): f.name for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    chosen: dict[str, Any] = {}
    for key, raw in values.items():
        text = raw.strip().replace("${user.home}", str(Path.home()))
        if key in names:
            name = names[key]
            chosen[name] = _value(key, text, kinds[name])
            low, high = bounds.get(key, (0, 1 << 62))
            if kinds[name] is int and not low <= chosen[name] <= high:
                raise ConfigError(f"{key}={text}: must be {low} to {high}")
        elif key in fixed:
            if text not in fixed[key]:
                raise ConfigError(
                    f"{key}={text} is not supported by this version: use {' or '.join(fixed[key])}"
                )
        elif key in without_effect:
            log.warning("%s=%s has no effect: %s", key, escape(text), without_effect[key])
        else:
            close = difflib.get_close_matches(key, [*names, *fixed, *without_effect], 1, 0.7)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise ConfigError(f"unknown configuration key {key!r}{hint}")
    return cls(**chosen)
