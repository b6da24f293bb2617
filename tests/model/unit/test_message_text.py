"""What is read natively of usual messages is what Python reads of all."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pyrmq.client.producer.outgoing import Packer, Packing
from pyrmq.engine import MessageText
from pyrmq.errors import PyrmqError
from pyrmq.model.compression import CompressionType
from pyrmq.model.message import Message
from pyrmq.model.properties import SYSTEM_PROPERTIES, decode_properties, encode_properties
from pyrmq.model.record import encode_entry

LIMIT = 100


def packer(namespace: str = "") -> Packer:
    return Packer(Packing("g", namespace, LIMIT, 1 << 20, CompressionType.ZLIB, 5))


_TEXT = st.text(st.sampled_from("aä\x01\x02 \ud800%"), max_size=3)
_NAME = _TEXT | st.sampled_from(sorted(SYSTEM_PROPERTIES))
_ANY: st.SearchStrategy[Any] = st.none() | st.integers() | st.binary() | _TEXT


def message(fields: dict[str, Any]) -> Message:
    """With any values at all: a user may set fields after the message was made."""
    made = Message("T", b"body")
    for name, value in fields.items():
        setattr(made, name, value)
    return made


_MESSAGE = st.fixed_dictionaries(
    {},
    optional={
        "topic": st.sampled_from(["T", "%RETRY%g", "", "%DLQ%g"]) | _ANY,
        "body": st.binary(max_size=LIMIT + 2) | st.builds(bytearray, st.binary()) | _ANY,
        "tags": _TEXT | _ANY,
        "keys": st.lists(_TEXT | st.integers(), max_size=3) | _TEXT | _ANY,
        "flag": st.integers(-(1 << 31) - 1, 1 << 31) | st.booleans() | _ANY,
        "wait_store_ok": st.booleans() | _ANY,
        "properties": st.dictionaries(_NAME, _TEXT, max_size=3) | _ANY,
        "delay_time_level": st.integers(-1, 2) | st.booleans() | _ANY,
        "delay": st.sampled_from([None, 0, 5.0]) | _ANY,
        "deliver_at": st.none() | st.just(1.0) | _ANY,
        "priority": st.none() | st.integers(-1, 1) | _ANY,
    },
).map(message)


@given(_MESSAGE, st.sampled_from(["", "ns"]))
@example(Message("T", b"x", "A", ["k1", "k2"], properties={"a": "1"}), "")
@example(Message("T", b"x", "", "", flag=-1, wait_store_ok=False), "ns")
def test_what_is_usual_is_as_in_python(sent: Message, namespace: str) -> None:
    native = MessageText(Message, "10.0.0.1", namespace, LIMIT)
    found, entry = native.properties(sent), native.entry(sent)
    assert (found is None) == (entry is None)
    if found is None or entry is None:
        return
    slow = packer(namespace)
    try:
        slow.check(sent)
    except PyrmqError as e:
        assert "topic" in str(e)  # noqa: PT017 - the one thing that is not looked at
        return
    wanted = slow.properties(sent)
    for key, text in (found, (entry[0], "")):
        assert len(key) == 32
        wanted["UNIQ_KEY"] = key
        if text:
            assert decode_properties(text) == decode_properties(encode_properties(wanted))
    assert entry[1] == encode_entry(sent.flag, sent.body, encode_properties(wanted))


@pytest.mark.parametrize("name", sorted(SYSTEM_PROPERTIES))
def test_properties_of_the_system(name: str) -> None:
    """Those that change what a message is are left to Python, the others are taken as they are."""
    native = MessageText(Message, "10.0.0.1", "", LIMIT)
    found = native.properties(Message("T", b"x", properties={name: "v"}))
    if found is not None:
        assert decode_properties(found[1])[name] == "v"
        packer().check(Message("T", b"x", properties={name: "v"}))


def test_usual_ones_are_taken() -> None:
    """Otherwise nothing here would be compared."""
    native = MessageText(Message, "10.0.0.1", "", LIMIT)
    for sent in (
        Message("T", b"x"),
        Message("T", b"x" * LIMIT, "tag", ["a", "b"], 7, False, {"own": "ü"}),
    ):
        assert native.properties(sent) is not None
        assert native.entry(sent) is not None
    assert native.properties(Message("T", b"x" * (LIMIT + 1))) is None
    assert native.properties(Message("T", b"x", priority=0)) is None
    assert native.entry(Message("T", b"x", properties={"p": "v" * 32767})) is None
