"""RocketMQ's property files (`-c FILE`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from pyrmq.errors import ConfigError

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

    plain = re.sub(r"\\(u[0-9a-fA-F]{4}|.)", one, text)
    if "\\u" not in text:
        return plain
    # Java writes what is beyond 16 bits as two escapes.
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def format_properties(values: Mapping[str, str]) -> str:
    """Lines `key=value` in ASCII, which `parse_properties` and Java's Properties read back."""
    return "".join(f"{_escaped(key)}={_escaped(value)}\n" for key, value in values.items())


def _escaped(text: str) -> str:
    """Escapes what would end a line or begin an escape, blanks in front, and all but ASCII."""
    out = text.replace("\\", "\\\\")
    for letter, char in _ESCAPES.items():
        out = out.replace(char, f"\\{letter}")
    if out.startswith(" "):
        out = f"\\{out}"
    return re.sub(r"[^\x20-\x7e]", _utf16, out)


def _utf16(match: re.Match[str]) -> str:
    units = match.group().encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))


def load_file(path: Path) -> dict[str, str]:
    """The keys and values of a file. ConfigError if it cannot be read, or is not UTF-8."""
    try:
        return parse_properties(path.read_text(encoding="utf-8"))
    except OSError as e:
        raise ConfigError(f"cannot read {path}: {e.strerror}") from e
    except UnicodeDecodeError as e:
        raise ConfigError(f"{path} is not UTF-8: {e}") from e
