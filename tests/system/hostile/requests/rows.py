"""What a table of requests says of one: a valid request, and what becomes of it when it is bad."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tests.support.client import Client
from tests.support.wire import BINARY, Command, encode

SYSTEM_ERROR = 1
NO_JSON = (b"", b"{", b"no json", b"[1]", b"7", b'"text"')
"""Bodies that are no JSON object."""

_LEAKS = re.compile(
    r"Traceback|\bNone\b|KeyError|TypeError|ValueError|AttributeError|IndexError|AssertionError"
    r"|\w+Error\(|\.py\b|<class|object at 0x|/(?:home|tmp|usr|work|root|var)/|panicked|\[Errno"
    r"|NoneType|src/\w+"
)


@dataclass(frozen=True, slots=True)
class Row:
    """A valid request of one kind. `ok`: the code of its answer. `ints`: its numbers, and of how
    many bits they are. `optional`: fields that may be missing. `bad`: by field, values that are
    refused, with the code and a word of the text. `unknown`: by field that names something, the
    code when there is no such thing. `forbidden`: by topic, the code of the request on it. `json`:
    the body is a JSON object. `shapes`: JSON objects that it cannot be, and the field they are
    about."""

    ext: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    ok: int = 0
    ints: Mapping[str, int] = field(default_factory=dict)
    optional: frozenset[str] = frozenset()
    bad: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    unknown: Mapping[str, int] = field(default_factory=dict)
    forbidden: Mapping[str, int] = field(default_factory=dict)
    json: bool = False
    shapes: Mapping[bytes, tuple[int, str]] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    """What texts call a field, where that is another name."""
    changed: tuple[tuple[Mapping[str, str], int, str], ...] = ()
    """Fields that are bad together, with the code and a word of the text."""
    twice: int | None = None
    """Another code that one of two answers may have, where it comes twice at once."""
    says: Mapping[str, str] = field(default_factory=dict)
    """By field, the word that texts about a bad value have in place of its name."""

    def request(self, code: int, **change: str | None) -> Command:
        """The valid request, with fields changed, or (None) left out."""
        ext = {**self.ext, **change}
        return Command(code, {k: v for k, v in ext.items() if v is not None}, self.body)


@dataclass(frozen=True, slots=True)
class Case:
    """A request that is bad in one way, the code of its answer (several: any of them), and words
    of the answer's text."""

    what: str
    request: Command
    code: int
    words: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.request.code}-{self.what}"


def all_cases(rows: Mapping[int, Row]) -> list[Case]:
    """Every way in which a table says that requests can be bad; every other one with a binary
    header, in which an empty field is none, and a code has 16 bits."""
    found = [case for code, row in rows.items() for case in cases(code, row)]
    for case in found[::2]:
        if "" not in case.request.ext.values() and case.request.code < 1 << 15:
            case.request.serialize = BINARY
    return found


def cases(code: int, row: Row, unknown: str = "NotThere") -> Iterator[Case]:
    """Those of one request."""
    for name in row.ext:
        shown = row.names.get(name, name)
        if name not in row.optional:
            yield Case(f"no-{shown}", row.request(code, **{name: None}), SYSTEM_ERROR, (shown,))
        bits = row.ints.get(name)
        if bits is not None:
            for value in ("text", "1_0", str(1 << bits - 1), str(-(1 << 63) - 1)):
                request = row.request(code, **{name: value})
                yield Case(f"{shown}={value!r}", request, SYSTEM_ERROR, (shown,))
    for name, values in row.bad.items():
        shown = row.names.get(name, name)
        for value, refused in values.items():
            request = row.request(code, **{name: value})
            yield Case(f"{shown}={value[:24]!r}", request, refused, (row.says.get(name, shown),))
    for change, refused, word in row.changed:
        request = row.request(code, **change)
        yield Case(f"{list(change.values())!r}"[:60], request, refused, (word,))
    for name, refused in row.unknown.items():
        request = row.request(code, **{name: unknown})
        words = (unknown,) if refused else ()
        yield Case(f"unknown-{row.names.get(name, name)}", request, refused, words)
    topic = next((n for n in ("topic", "b", "originTopic") if n in row.ext), "topic")
    for name, answered in row.forbidden.items():
        request = row.request(code, **{topic: name})
        yield Case(f"on-{name}", request, answered, (name,) if answered else ())
    for body in NO_JSON if row.json else ():
        yield Case(f"body={body!r}", Command(code, dict(row.ext), body), SYSTEM_ERROR, ("body",))
    for body, (refused, word) in row.shapes.items():
        yield Case(f"body={body[:40]!r}", Command(code, dict(row.ext), body), refused, (word,))


@functools.cache
def _class_names() -> set[str]:
    """Of this package, those that are no plain English words."""
    return {
        name
        for module in list(sys.modules.values())
        if module.__name__.startswith("pyrmq.")
        for name, value in vars(module).items()
        if isinstance(value, type) and re.match(r"_?[A-Z][a-z]+[A-Z]", name)
    }


def check_text(remark: str | None, words: tuple[str, ...] = ()) -> None:
    """A refusal says what is wrong, and nothing of the program's insides."""
    assert remark, "no text"
    assert not _LEAKS.search(remark), remark
    assert _class_names().isdisjoint(re.findall(r"\w+", remark)), remark
    assert len(remark) < 2000, f"a text of {len(remark)} characters"
    for word in words:
        assert word.lower() in remark.lower(), f"{word!r} is not in {remark!r}"


def check_twice(address: tuple[str, int], code: int, row: Row) -> None:
    """A valid request twice at once, on one connection and on two: each is answered as one is."""
    with Client(address) as one, Client(address) as two:
        first, second = row.request(code), row.request(code)
        first.opaque, second.opaque = 1, 2
        frames = encode(first) + encode(second)
        one.send_raw(frames)
        two.send_raw(frames)
        answers: list[Command] = [client.receive() for client in (one, two) for _ in range(2)]
        assert sorted(answer.opaque for answer in answers) == [1, 1, 2, 2]
        for answer in answers:
            assert answer.code in (row.ok, row.twice), f"{answer.code} {answer.remark}"
            if answer.code:
                check_text(answer.remark)
