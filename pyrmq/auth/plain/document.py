"""YAML as access files need it: mappings, lists and texts, each with its place in the text.

It is read event by event, so that nothing is built before it was checked: no anchors, aliases and
tags, no second document, no key twice in one mapping, and bounds on depth and size. All scalars are
texts, as they are written: a secret key that looks like a number keeps its zeros.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

MAX_SIZE = 1 << 20
"""Most bytes of a file."""
MAX_DEPTH = 6
"""An account's permission stands at depth 4."""
MAX_NODES = 100_000
_LOADER: Any = yaml.CBaseLoader if yaml.__with_libyaml__ else yaml.BaseLoader
_NULLS = ("", "~", "null", "Null", "NULL")


@dataclass(slots=True)
class Node:
    """A part of a document: `start` and `end` are its first character and the one behind its last.

    The end is that of what is inside: blank lines and comments behind it do not belong to it.
    """

    start: int
    end: int
    flow: bool = False
    """Whether it is written with brackets or braces."""


@dataclass(slots=True)
class Scalar(Node):
    text: str | None = None
    """None: null, or nothing."""


@dataclass(slots=True)
class Listed(Node):
    items: list[Node] = field(default_factory=list)


@dataclass(slots=True)
class Mapped(Node):
    pairs: dict[str, tuple[Scalar, Node]] = field(default_factory=dict)
    """By key: the key and its value."""

    def get(self, key: str) -> Node | None:
        """The value of a key, None if it is missing or null."""
        pair = self.pairs.get(key)
        if pair is None or (isinstance(pair[1], Scalar) and pair[1].text is None):
            return None
        return pair[1]


class DocumentError(ValueError):
    """The text is no document of this kind. Of what stands there it contains only names of keys."""


def _fault(event: Any, text: str) -> DocumentError:
    return DocumentError(f"line {event.start_mark.line + 1}: {text}")


def read(raw: bytes) -> Mapped:
    """The mapping of a document; an empty one for an empty document. DocumentError."""
    if len(raw) > MAX_SIZE:
        raise DocumentError(f"it has more than {MAX_SIZE} bytes")
    try:
        return parse(raw.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise DocumentError("it is not UTF-8") from None


def parse(text: str) -> Mapped:
    """As `read`, of a text."""
    try:
        root = _Builder(yaml.parse(text, Loader=_LOADER)).document()
    except yaml.MarkedYAMLError as e:
        line = f"line {e.problem_mark.line + 1}: " if e.problem_mark else ""
        raise DocumentError(f"{line}it is no YAML ({e.problem})") from None
    except (yaml.YAMLError, RecursionError, UnicodeError):  # such as a control character
        raise DocumentError("it is no YAML") from None
    if root is None or (isinstance(root, Scalar) and root.text is None):
        return Mapped(len(text), len(text))
    if not isinstance(root, Mapped):
        raise DocumentError(
            "it is no mapping: it begins with globalWhiteRemoteAddresses: or accounts:"
        )
    return root


def _index(mark: Any) -> int:
    return int(mark.index)


class _Builder:
    """Makes nodes of events."""

    def __init__(self, events: Iterator[Any]) -> None:
        self._events = events
        self._nodes = 0

    def document(self) -> Node | None:
        root: Node | None = None
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent) and root is not None:
                raise _fault(event, "it has a second document")
            if isinstance(event, yaml.NodeEvent):
                root = self._node(event, 0)
        return root

    def _node(self, event: Any, depth: int) -> Node:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise _fault(event, f"it has more than {MAX_NODES} values")
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise _fault(event, "anchors and aliases are not taken: write the value out")
        if event.tag is not None:
            raise _fault(event, "tags are not taken")
        start = _index(event.start_mark)
        if isinstance(event, yaml.ScalarEvent):
            value = None if not event.style and event.value in _NULLS else str(event.value)
            return Scalar(start, _index(event.end_mark), text=value)
        if depth >= MAX_DEPTH:
            raise _fault(event, f"it is deeper than {MAX_DEPTH} levels")
        flow = bool(event.flow_style)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._listed(Listed(start, start, flow), depth)
        return self._mapped(Mapped(start, start, flow), depth)

    def _listed(self, node: Listed, depth: int) -> Listed:
        for event in self._events:
            if isinstance(event, yaml.SequenceEndEvent):
                node.end = _index(event.end_mark) if node.flow else node.items[-1].end
                break
            node.items.append(self._node(event, depth + 1))
        return node

    def _mapped(self, node: Mapped, depth: int) -> Mapped:
        for event in self._events:
            if isinstance(event, yaml.MappingEndEvent):
                last = [value for _, value in node.pairs.values()][-1:]
                node.end = _index(event.end_mark) if node.flow or not last else last[0].end
                break
            key = self._node(event, depth + 1)
            if not isinstance(key, Scalar) or key.text is None:
                raise _fault(event, "a key is a name")
            if key.text in node.pairs:
                raise _fault(event, f"{key.text[:64]!r} stands there twice")
            node.pairs[key.text] = key, self._node(next(self._events), depth + 1)
        return node
