"""JSON in fastjson's dialect: what is written, what is read, and that both agree."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrmq.errors import ProtocolError
from pyrmq.net import fastjson

QUEUE = (("brokerName", "b"), ("queueId", 0), ("topic", "T"))

_INT = st.integers(-(1 << 63), (1 << 63) - 1)
_TEXT = st.text(max_size=8)
_SCALAR = st.booleans() | _INT | _TEXT | st.floats(allow_nan=False, allow_infinity=False)
_OBJECT_KEY = st.dictionaries(_TEXT, _INT | _TEXT, max_size=3).map(lambda d: tuple(d.items()))
_KEY = _TEXT | _INT | _OBJECT_KEY
_VALUE = st.recursive(
    _SCALAR,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEY, inner, max_size=4),
    max_leaves=20,
)


def pretty(value: Any) -> bytes:
    return b"".join(fastjson.parts(value, "\n"))


@given(_VALUE)
def test_round_trip(value: Any) -> None:
    assert fastjson.loads(fastjson.dumps(value)) == value
    assert fastjson.loads(pretty(value)) == value
    assert b"".join(fastjson.parts(value)) == fastjson.dumps(value)


def strict(value: Any) -> Any:
    """A value as it looks after the strict form."""
    if isinstance(value, dict):
        return {str(k): strict(v) for k, v in value.items()}
    return [strict(v) for v in value] if isinstance(value, list) else value


@given(
    st.recursive(
        _SCALAR, lambda v: st.lists(v, max_size=3) | st.dictionaries(_INT, v) | st.tuples(v)
    )
)
def test_strict_form_is_json_for_everybody(value: Any) -> None:
    text = fastjson.dumps_strict(value)
    assert text.isascii()
    assert fastjson.loads(text) == json.loads(text)
    if not isinstance(value, tuple):
        assert json.loads(text) == json.loads(json.dumps(value))


@given(st.binary(max_size=60) | st.text("{}[]:,\"\\'u0a $ref.", max_size=60).map(str.encode))
def test_any_bytes_parse_or_are_refused(body: bytes) -> None:
    with suppress(ProtocolError):
        fastjson.loads(body)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({0: "h:1", 1: "h:2"}, '{0:"h:1",1:"h:2"}'),
        ({-5: 1}, "{-5:1}"),
        ({"0": 1}, '{"0":1}'),
        ({QUEUE: 5}, '{{"brokerName":"b","queueId":0,"topic":"T"}:5}'),
        ({"a": None, "b": [None], "c": {"d": None}}, '{"b":[null],"c":{}}'),
        ({"a": [], "b": {}, "c": ()}, '{"a":[],"b":{},"c":[]}'),
        ({"ä/": "ö\"\\\n\x01"}, '{"ä/":"ö\\"\\\\\\n\\u0001"}'),
        ([True, False, 1.5], "[true,false,1.5]"),
    ],
)  # fmt: skip
def test_written_form(value: Any, text: str) -> None:
    assert fastjson.dumps(value).decode() == text
    assert b"".join(fastjson.parts(value)).decode() == text


def test_pretty_form() -> None:
    value = {
        "dataVersion": {"counter": 1},
        "offsetTable": {"T@G": {0: 12, 1: 9}},
        "x": [],
        "y": [1],
    }
    assert pretty(value).decode() == (
        '{\n\t"dataVersion":{\n\t\t"counter":1\n\t},\n\t"offsetTable":{\n\t\t"T@G":{\n\t\t\t0:12,'
        '\n\t\t\t1:9\n\t\t}\n\t},\n\t"x":[],\n\t"y":[\n\t\t1\n\t]\n}'
    )


class Members(fastjson.Encoded):
    """The members of a dictionary, each encoded for where it is to stand."""

    def __init__(self, value: dict[Any, Any], line: str) -> None:
        self._members = [fastjson.member(k, v, line) for k, v in value.items()]

    def members(self) -> list[bytes]:
        return self._members


@pytest.mark.parametrize("joined", [1, 2, 3, 100])
@given(value=st.dictionaries(_KEY, _VALUE, max_size=5))
def test_members_that_are_encoded_already(joined: int, value: dict[Any, Any]) -> None:
    """However many of them become one part, they read as if they were encoded with the rest."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fastjson, "JOINED", joined)
        for line, inner in (("", ""), ("\n", "\n\t\t\t")):
            mixed = {"a": {"table": Members(value, inner), "none": None}, "z": 1}
            plain = {"a": {"table": value, "none": None}, "z": 1}
            found = b"".join(fastjson.parts(mixed, line))
            assert found == b"".join(fastjson.parts(plain, line))


def test_no_part_has_too_many_members(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fastjson, "JOINED", 2)
    members = Members(dict.fromkeys(range(5), 7), "")
    assert list(fastjson.parts(members)) == [b"{0:7,1:7", b",2:7,3:7", b",4:7", b"}"]


@pytest.mark.parametrize("text", ["\ud800", "\udcff/store", "a\ud83dz"])
def test_half_a_surrogate_pair_takes_nothing_else_away(text: str) -> None:
    """One such name, of a folder that is not UTF-8, must not end an answer or a saving."""
    shown = "".join("?" if 0xD800 <= ord(c) < 0xE000 else c for c in text)
    value = {"good": 1, text: {"x": [text]}}
    wanted = f'{{"good":1,"{shown}":{{"x":["{shown}"]}}}}'.encode()
    assert fastjson.dumps(value) == wanted
    assert b"".join(fastjson.parts(value)) == wanted
    assert fastjson.member(text, text) == f'"{shown}":"{shown}"'.encode()


def test_strict_form() -> None:
    value = {"b": {1: "ä", 0: None}, "a": [{2: ()}]}
    assert fastjson.dumps_strict(value) == b'{"a":[{"2":[]}],"b":{"1":"\\u00e4"}}'


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{0:5,"1":6}', {0: 5, "1": 6}),
        ('{{"brokerName":"b","queueId":0,"topic":"T"}:5}', {QUEUE: 5}),
        ("{'a':'b'}", {"a": "b"}),
        ("{a:1}", {"a": 1}),
        ('{"a":[1,2,],}', {"a": [1, 2]}),
        (' { "a" : null } ', {"a": None}),
        ('{"a":1,"a":2}', {"a": 2}),
        ('"\\u00e4\\ud83d\\ude00\\/\\n"', "ä😀/\n"),
        ("-9223372036854775808", -(1 << 63)),
        ("1.0E10", 1e10),
    ],
)
def test_read_forms(text: str, value: Any) -> None:
    got = fastjson.loads(text.encode())
    assert got == value
    assert type(got) is type(value)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b'{"a"', b'{"a":', b'{"a":1', b"[1", b"}", b'"x', b"{}{}", b'"\xff"', b'"\\u00g0"'],
)
def test_refused(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        fastjson.loads(body)


@pytest.mark.parametrize("body", [b"[]", b"1", b'"x"', b"null"])
def test_an_object_is_asked_for(body: bytes) -> None:
    fastjson.loads(body)
    with pytest.raises(ProtocolError):
        fastjson.loads_object(body)


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b"{", b'{"$ref":', b'{"a":{"$ref":"$"},"b":['])
def test_hostile_depth(opening: bytes) -> None:
    with pytest.raises(ProtocolError, match="too deep"):
        fastjson.loads(opening * 100_000)


def test_depth_that_is_read() -> None:
    """Deep enough for everything RocketMQ writes, references included."""
    text = b'{"r":{"$ref":"$.x"},"x":1,"d":' + b"[" * 60 + b"]" * 60 + b"}"
    assert fastjson.loads(text)["r"] == 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a":{"b":[1]},"c":{"$ref":"$.a.b"}}', {"a": {"b": [1]}, "c": [1]}),
        ('{"c":[{"$ref":"$.a"}],"a":7}', {"c": [7], "a": 7}),
        ('{"a":{"$ref":"$.none.at.all"}}', {"a": None}),
        ('{"a":1,"b":{"$ref":"$.a.x"}}', {"a": 1, "b": None}),
        ('{"a":{"$ref":"$.b"},"b":{"$ref":"$.a"}}', {"a": None, "b": None}),
        ('{"a":{"$ref":"$.a"}}', {"a": None}),
        ('{"a":{"$ref":5}}', {"a": {"$ref": 5}}),
        ('{"a":{"$ref":"$.b","c":1},"b":2}', {"a": {"$ref": "$.b", "c": 1}, "b": 2}),
    ],
)
def test_references(text: str, value: Any) -> None:
    assert fastjson.loads(text.encode()) == value


def test_the_version_that_java_brokers_refer_to() -> None:
    body = (
        b'{"topicConfigSerializeWrapper":{"dataVersion":{"counter":3},'
        b'"mappingDataVersion":{"$ref":"$.topicConfigSerializeWrapper.dataVersion"}}}'
    )
    wrapper = fastjson.loads_object(body)["topicConfigSerializeWrapper"]
    assert wrapper["mappingDataVersion"] == {"counter": 3}


def test_a_reference_to_the_root_makes_no_loop() -> None:
    value = fastjson.loads(b'{"a":{"$ref":"$"},"b":1}')
    assert len(repr(value)) < 200
    assert fastjson.loads(fastjson.dumps({"b": value["b"]})) == {"b": 1}
