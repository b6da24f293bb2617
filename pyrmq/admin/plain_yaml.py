"""YAML or JSON that people write, as plain values.

It is read event by event, so that nothing is built before it was checked: no anchors, aliases and
tags, no second document, no key twice in one mapping, and bounds on depth and number. A scalar
without quotes is a number, true, false or null if it looks so, else a text, as `no` and `on` are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

from pyrmq.errors import ConfigError, ProtocolError
from pyrmq.net import fastjson

MAX_DEPTH = 12
MAX_VALUES = 8 << 20
_LOADER: Any = yaml.CBaseLoader if yaml.__with_libyaml__ else yaml.BaseLoader
_NULLS = ("", "~", "null")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_REAL = re.compile(r"-?[0-9]{1,15}\.[0-9]{1,15}")


def read(raw: bytes, *, most: int = MAX_VALUES) -> Any:
    """The value of a document. ConfigError, which says where it is none."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError("it is not UTF-8") from None
    if text.lstrip()[:1] == "{":
        try:
            return fastjson.loads_object(raw, most, "it")
        except (ProtocolError, RecursionError) as e:
            raise ConfigError(f"{e}") from None
    try:
        return _Builder(yaml.parse(text, Loader=_LOADER), most).document()
    except yaml.MarkedYAMLError as e:
        line = f"line {e.problem_mark.line + 1}: " if e.problem_mark else ""
        raise ConfigError(f"{line}it is no YAML ({e.problem})") from None
    except (yaml.YAMLError, UnicodeError):  # such as a control character
        raise ConfigError("it is no YAML") from None


def write(value: Any) -> str:
    """Plain values as YAML that `read` gives back: innermost mappings in a line each."""
    text: str = yaml.dump(
        value, Dumper=_Dumper, sort_keys=False, allow_unicode=False, default_flow_style=None,
        width=1 << 20,
    )  # fmt: skip
    return text


class Lines(dict[str, Any]):
    """A mapping that is written with a line for each member."""


_DUMPER: Any = yaml.CSafeDumper if yaml.__with_libyaml__ else yaml.SafeDumper


class _Dumper(_DUMPER):  # type: ignore[misc]
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _lines(dumper: yaml.SafeDumper, data: Lines) -> yaml.Node:
    return dumper.represent_mapping("tag:yaml.org,2002:map", data, flow_style=False)


_Dumper.add_representer(Lines, _lines)


def _fault(event: Any, text: str) -> ConfigError:
    return ConfigError(f"line {event.start_mark.line + 1}: {text}")


class _Builder:
    """Makes values of events."""

    def __init__(self, events: Iterator[Any], most: int) -> None:
        self._events = events
        self._most = most
        self._count = 0

    def document(self) -> Any:
        root, seen = None, False
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                if seen:
                    raise _fault(event, "it has a second document")
                seen = True
            if isinstance(event, yaml.NodeEvent):
                root = self._value(event, 0)
        return root

    def _value(self, event: Any, depth: int) -> Any:
        self._count += 1
        if self._count > self._most:
            raise _fault(event, f"it has more than {self._most} values")
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise _fault(event, "anchors and aliases are not taken: write the value out")
        if event.tag is not None:
            raise _fault(event, "tags are not taken")
        if isinstance(event, yaml.ScalarEvent):
            return str(event.value) if event.style else plain(event.value)
        if depth >= MAX_DEPTH:
            raise _fault(event, f"it is deeper than {MAX_DEPTH} levels")
        if isinstance(event, yaml.SequenceStartEvent):
            return self._listed(depth)
        return self._mapped(depth)

    def _listed(self, depth: int) -> list[Any]:
        found = []
        for event in self._events:
            if isinstance(event, yaml.SequenceEndEvent):
                break
            found.append(self._value(event, depth + 1))
        return found

    def _mapped(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for event in self._events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            if not isinstance(event, yaml.ScalarEvent) or not event.value:
                raise _fault(event, "a key is a name")
            if event.anchor is not None or event.tag is not None:
                raise _fault(event, "anchors and tags are not taken")
            key = str(event.value)
            if key in found:
                raise _fault(event, f"{key[:64]!r} stands there twice")
            found[key] = self._value(next(self._events), depth + 1)
        return found


def plain(text: str) -> Any:
    """The value of a scalar without quotes."""
    if text in _NULLS:
        return None
    if text in ("true", "false"):
        return text == "true"
    if _NUMBER.fullmatch(text):
        return int(text)
    return float(text) if _REAL.fullmatch(text) else text
