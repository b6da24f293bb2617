"""Files of configuration: RocketMQ's property files (`-c FILE`), and files written durably."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from pyrmq.errors import ConfigError

_UNDECODABLE = re.compile("[\udc80-\udcff]")
"""Characters that Python makes of bytes that are not UTF-8."""
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
    """The keys and values of a file in UTF-8, with a byte order mark or without. Comments may be in
    any encoding. ConfigError if it cannot be read, or if a key or a value is not UTF-8."""
    try:
        raw = path.read_bytes()
    except OSError as e:
        raise ConfigError(f"cannot read {path}: {e.strerror}") from e
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ConfigError(f"{path} is UTF-16, not UTF-8: save it as UTF-8")
    found = parse_properties(raw.decode("utf-8-sig", "surrogateescape"))
    for key, value in found.items():
        if _UNDECODABLE.search(key) or _UNDECODABLE.search(value):
            raise ConfigError(
                f"{path}: the line with the key {_UNDECODABLE.sub('?', key)[:100]!r} is not UTF-8: "
                "save the file as UTF-8, or write such letters as \\uXXXX"
            )
    return found


def write(path: Path, parts: Iterable[bytes]) -> None:
    """Writes a file anew."""
    try:
        with path.open("wb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
    except OSError as e:
        raise OSError(e.errno, e.strerror, str(path)) from e


def sync_folder(path: Path) -> None:
    """Has names that were made or replaced in a folder be there after a crash."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    except OSError as e:
        raise OSError(e.errno, e.strerror, str(path)) from e
    finally:
        os.close(fd)


Seen = tuple[int, int, int] | None
"""A file as it was found: time of its last change, bytes, inode. None: it was not there."""


def look(path: str | Path) -> Seen:
    """What differs after a file was changed or replaced. Blocking."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
