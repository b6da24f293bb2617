"""Changes of an access file's text, which leave the rest of it as it stands, comments included.

Each function returns the new text. It puts in or takes out the lines of one account or of one key.
The result is read again and has to say what was meant; if it does not, the whole file is written
anew, without its comments. `lost` says whether comments are gone: those between the lines of an
account that is replaced are, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from pyrmq.auth.plain.accounts import KEYS
from pyrmq.auth.plain.document import DocumentError, Listed, Mapped, Node, Scalar, parse
from pyrmq.model.topic import DataVersion

ACCOUNTS = "accounts"
WHITE = "globalWhiteRemoteAddresses"
VERSION = "dataVersion"
_WORD = re.compile("[A-Za-z*%]")
"""The beginning of a text that is no number."""
Values = Mapping[str, str | Sequence[str] | None]
"""Of an account, by key."""


@dataclass(frozen=True, slots=True)
class Edited:
    """A changed text. `lost`: comments of the old one are not in it."""

    text: str
    lost: bool = False


def values_of(node: Node) -> dict[str, Any]:
    """The values of an account as the file has them."""
    found = _plain(node)
    return found if isinstance(found, dict) else {}


def with_account(text: str, access_key: str, values: Values) -> Edited:
    """Replaces the account of this key, or puts it behind the last one."""
    root = parse(text)
    found = _plain(root)
    listed = root.get(ACCOUNTS)
    items = listed.items if isinstance(listed, Listed) else []
    at = _place(items, access_key)
    row = {key: values[key] for key in KEYS if key in values}
    accounts = [_plain(item) for item in items]
    if at is None:
        accounts.append(row)
    else:
        accounts[at] = row
    expected = {**found, ACCOUNTS: accounts}
    if not items or (listed is not None and listed.flow):
        return _with_pair(text, root, ACCOUNTS, accounts, expected)
    prefix = _prefix(text, items[-1 if at is None else at])
    block = _indented(row, len(prefix))
    if at is None:
        end = _end_of_line(text, items[-1].end)
        return _checked(text, text[:end] + f"\n{prefix}{block}" + text[end:], expected)
    old = items[at]
    new = text[: old.start] + block + text[old.end :]
    return _checked(text, new, expected, gone=text[old.start : old.end])


def without_account(text: str, access_key: str) -> Edited | None:
    """Takes the account out; None if it is not there."""
    root = parse(text)
    listed = root.get(ACCOUNTS)
    items = listed.items if isinstance(listed, Listed) else []
    at = _place(items, access_key)
    if at is None or listed is None:
        return None
    accounts = [_plain(item) for i, item in enumerate(items) if i != at]
    expected = {**_plain(root), ACCOUNTS: accounts}
    if listed.flow or not accounts:
        return _with_pair(text, root, ACCOUNTS, accounts, expected)
    old = items[at]
    start = text.rfind("\n", 0, old.start) + 1
    end = min(_end_of_line(text, old.end) + 1, len(text))
    return _checked(text, text[:start] + text[end:], expected, gone=text[start:end])


def with_white_list(text: str, patterns: Sequence[str]) -> Edited:
    """Replaces the global white list."""
    root = parse(text)
    listed = list(patterns)
    return _with_pair(text, root, WHITE, listed, {**_plain(root), WHITE: listed})


def with_version(text: str, version: DataVersion) -> Edited:
    """Writes the version of the content. [updateAclConfigFileVersion]"""
    root = parse(text)
    value = [{"counter": version.counter, "timestamp": version.timestamp}]
    expected = [{key: str(number) for key, number in value[0].items()}]
    return _with_pair(text, root, VERSION, value, {**_plain(root), VERSION: expected})


def _place(items: Sequence[Node], access_key: str) -> int | None:
    for i, item in enumerate(items):
        key = item.get("accessKey") if isinstance(item, Mapped) else None
        if isinstance(key, Scalar) and key.text == access_key:
            return i
    return None


def _with_pair(text: str, root: Mapped, key: str, value: Any, expected: dict[str, Any]) -> Edited:
    """Replaces the value of a key at the top, or puts the key behind all others."""
    pair = root.pairs.get(key)
    if pair is None:
        gap = "" if not text or text.endswith("\n") else "\n"
        return _checked(text, f"{text}{gap}{_dumped({key: value})}\n", expected)
    start, end = pair[0].start, max(pair[1].end, pair[0].end)
    if pair[1].end == pair[1].start:  # nothing behind the colon
        end = text.find(":", pair[0].end) + 1
    return _checked(
        text, text[:start] + _indented({key: value}, 0) + text[end:], expected, gone=text[start:end]
    )


def _checked(text: str, new: str, expected: dict[str, Any], gone: str = "") -> Edited:
    """The new text if it says what is expected. `gone`: the part of the old text that is not in
    it."""
    try:
        says = _plain(parse(new))
    except DocumentError:
        says = None
    if says == _as_texts(expected):
        return Edited(new, lost="#" in gone)
    return Edited(_dumped(expected) + "\n", lost="#" in text)


def _plain(node: Node) -> Any:
    """Mappings, lists and texts without their places."""
    if isinstance(node, Mapped):
        return {key: _plain(value) for key, (_, value) in node.pairs.items()}
    if isinstance(node, Listed):
        return [_plain(item) for item in node.items]
    return node.text if isinstance(node, Scalar) else None


def _as_texts(value: Any) -> Any:
    """As a document that was read has it."""
    if isinstance(value, Mapping):
        return {key: _as_texts(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_as_texts(one) for one in value]
    return value


def _prefix(text: str, item: Node) -> str:
    """What stands before an item in its line, such as `  - `."""
    return text[text.rfind("\n", 0, item.start) + 1 : item.start]


def _end_of_line(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


class _Quoted(str):
    """A text that is written with quotes."""


class _Dumper(yaml.SafeDumper):
    """Writes null as nothing, and true and false without quotes."""


_Dumper.add_representer(
    _Quoted, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="'")
)
_Dumper.add_representer(
    type(None), lambda dumper, _: dumper.represent_scalar("tag:yaml.org,2002:null", "")
)


def _dumped(value: Any) -> str:
    ready = _ready(value)
    made = yaml.dump(ready, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1 << 20)
    return str(made).rstrip("\n")


def _ready(value: Any) -> Any:
    """What is written: the words of `admin` as a boolean, which Java's reader expects, and with
    quotes what it might take for a number: 1e10 is one there, and none for Python's."""
    if isinstance(value, Mapping):
        return {
            key: one == "true" if key == "admin" and one in ("true", "false") else _ready(one)
            for key, one in value.items()
        }
    if isinstance(value, str) and not _WORD.match(value):
        return _Quoted(value)
    if isinstance(value, list | tuple):
        return [_ready(one) for one in value]
    return value


def _indented(value: Any, columns: int) -> str:
    """The lines of a mapping; all but the first are moved to the right."""
    return ("\n" + " " * columns).join(_dumped(value).split("\n"))
