"""Recall handles, read and written as RocketMQ's RecallMessageHandle."""

import base64

import pytest

from pyrmq.errors import IllegalOperationError
from pyrmq.model.recall import MAX_HANDLE, RecallHandle

HANDLE = RecallHandle("Orders", "broker-a", 1_700_000_000_001, "7F000001000A18B4AAC2000000000000")


def of(text: str | bytes) -> str:
    raw = text.encode() if isinstance(text, str) else text
    return base64.urlsafe_b64encode(raw).decode()


def test_a_handle_is_the_base64_of_five_words() -> None:
    text = "v1 Orders broker-a 1700000000001 7F000001000A18B4AAC2000000000000"
    assert HANDLE.encode() == of(text)
    assert RecallHandle.parse(of(text)) == HANDLE


def test_the_alphabet_is_that_of_urls() -> None:
    handle = RecallHandle("t", "b", 1, "ÿ¿ûþ>>>???")
    text = handle.encode()
    assert "-" in text or "_" in text
    assert RecallHandle.parse(text) == handle


def test_padding_may_be_missing() -> None:
    for key in ("k", "kk", "kkk"):
        whole = RecallHandle("t", "b", 1, key)
        assert RecallHandle.parse(whole.encode().rstrip("=")) == whole


def test_further_words_are_ignored() -> None:
    assert RecallHandle.parse(of("v1 t b 5 k more words")) == RecallHandle("t", "b", 5, "k")


@pytest.mark.parametrize("time", ["soon", "", "1.5", "9" * 19, "9" * 30, "٣"])
def test_a_time_that_is_no_long_is_minus_one(time: str) -> None:
    assert RecallHandle.parse(of(f"v1 t b {time} k")).deliver_ms == -1


@pytest.mark.parametrize(
    "handle",
    [
        "",
        "?",
        "v1 t b 5 k",
        of("v2 t b 5 k"),
        of("v1 t b 5"),
        of("v1 t b 5 "),
        of("v1 t b 5 k") + "=",
        "A===",
        "A",
        "AAAAA",
        "AA\n==",
        "AAA+",
        "A" * (MAX_HANDLE + 4),
        "é" * 8,
    ],
)
def test_any_other_text_is_refused_with_the_brokers_code(handle: str) -> None:
    with pytest.raises(IllegalOperationError, match="recall handle is invalid") as refused:
        RecallHandle.parse(handle)
    assert refused.value.code == 604


def test_bytes_that_are_no_text_do_not_break_the_reading() -> None:
    assert RecallHandle.parse(of(b"v1 t b 5 \xff")).key == "\ufffd"
