"""Bodies of strangers: what the console shows of them, and how much it unpacks."""

from __future__ import annotations

import json
import tracemalloc
import zlib

import pytest

from pyrmq.console.messages.body import (
    ESCAPED,
    JSON_DEPTH,
    SHOWN,
    SHOWN_HEX,
    BodyView,
    head_of,
    preview_of,
    view_of,
    visible,
)
from pyrmq.model.compression import CompressionType, compress
from pyrmq.model.record import ReceivedMessage
from tests.console.message_data import BODIES, BOMB


def message(body: bytes, sys_flag: int = 0) -> ReceivedMessage:
    return ReceivedMessage(
        "t", body, 0, 0, 0, 0, sys_flag, 0, "h:1", 0, "h:2", 0, 0, len(body), 0, {}, "ID", "b"
    )


def view(body: bytes, sys_flag: int = 0) -> BodyView:
    return view_of(message(body, sys_flag))


def test_json_is_laid_out_as_it_was_written() -> None:
    shown = view(BODIES["json"])
    assert shown.form == "json"
    assert '  "a": 1.0000000000000000000001,' in shown.json.splitlines()
    assert shown.json.count('"a"') == 2
    assert "    1e400," in shown.json.splitlines()
    assert "    {}" in shown.json.splitlines()
    assert json.loads(shown.json) == json.loads(BODIES["json"])


@pytest.mark.parametrize(
    "body",
    [b"{", b'{"a": 1,}', b"[1 2]", b"no json", b"", b"[" * 50, b'{"a": "' + b"x" * SHOWN + b'"}'],
)
def test_what_is_no_json_stays_text(body: bytes) -> None:
    shown = view(body)
    assert (shown.form, shown.json) == ("text", "")


def test_deep_json() -> None:
    assert view(BODIES["nested"]).form == "json"
    limit = view(b"[" * JSON_DEPTH + b"]" * JSON_DEPTH)
    assert limit.form == "json"
    deeper = view(b"[" * (JSON_DEPTH + 1) + b"]" * (JSON_DEPTH + 1))
    assert (deeper.form, deeper.json) == ("text", "")
    assert "nested deeper" in deeper.json_note
    assert view(BODIES["deep"]).json == ""


def test_a_long_number_is_no_error() -> None:
    assert view(b"[" + b"9" * 50_000 + b"]").form == "json"


def test_what_is_hidden_is_shown() -> None:
    assert visible("a\u202eb\x1b[2J\x00\n\tc\r\nd\re") == "a\\u202eb\\x1b[2J\\x00\n\tc\nd\\re"
    assert visible("Größe 漢字 😀") == "Größe 漢字 😀"
    assert view(BODIES["bidi"]).text == "user\\u202egnp.exe \\u2066x\\u2069"
    inside = view('{"a": "\u202e"}'.encode())
    assert '"\\u202e"' in inside.json
    assert len(view(b"\x00" * SHOWN).text) == ESCAPED


def test_bytes_that_are_no_text() -> None:
    latin = view(BODIES["latin"])
    assert (latin.utf8, latin.form) == (False, "hex")
    assert latin.text == "Gr\\xf6\\xdfe"
    assert latin.hex == f"00000000  {'47 72 f6 df 65':<47}   |Gr..e|"
    assert view(BODIES["controls"]).form == "hex"
    assert preview_of(message(b"\xff\xfe")) == "ff fe"


def test_a_character_that_the_bound_cuts_is_left_out() -> None:
    shown = view(b"x" * (SHOWN - 1) + "ß".encode())
    assert shown.utf8
    assert shown.text == "x" * (SHOWN - 1)
    assert not shown.whole


def test_large_bodies_are_cut() -> None:
    shown = view(BODIES["large"])
    assert (shown.whole, len(shown.text), shown.size) == (False, SHOWN, len(BODIES["large"]))
    assert len(shown.hex.splitlines()) == SHOWN_HEX // 16
    assert not shown.hex_whole


@pytest.mark.parametrize("kind", list(CompressionType))
def test_a_bomb_is_not_unpacked(kind: CompressionType) -> None:
    packed = message(compress(BOMB, kind, 9), kind.sys_flag)
    tracemalloc.start()
    try:
        shown = view_of(packed)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (shown.codec, shown.size, shown.whole, shown.error) == (str(kind), None, False, "")
    assert most < 8 << 20


@pytest.mark.parametrize("kind", list(CompressionType))
def test_compressed_bodies(kind: CompressionType) -> None:
    shown = view(compress(b'{"a": 1}', kind, 3), kind.sys_flag)
    assert (shown.form, shown.size, shown.error) == ("json", 8, "")
    damaged = view(b"not packed", kind.sys_flag)
    assert f"compressed with {kind}" in damaged.error
    assert damaged.text == "not packed"


def test_a_compressed_body_that_ends_too_early() -> None:
    packed = zlib.compress(b"x" * 9999)
    cut = head_of(message(packed[: len(packed) - 6], CompressionType.ZLIB.sys_flag), 20_000)
    assert "ends too early" in cut.error
    assert not cut.whole
    unknown = view(b"abc", 0x701)
    assert (unknown.codec, unknown.text) == ("unknown", "abc")
    assert unknown.error


def test_a_preview_is_one_line() -> None:
    assert preview_of(message(b"one\n  two\r\n\tthree")) == "one two three"
    assert preview_of(message(b"x" * 500)) == "x" * 96 + " …"
    assert preview_of(message("\u202e<b>".encode())) == "\\u202e<b>"
