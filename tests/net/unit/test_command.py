"""Frames as pyrmq writes them, read by the engine and by the tests' own codec."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrmq.engine import Command, Listener, Session
from pyrmq.errors import PyrmqError
from pyrmq.model.codes import RequestCode, ResponseCode
from pyrmq.net.command import (
    FLAG_ONEWAY,
    JSON,
    ROCKETMQ,
    Response,
    encode_request,
    encode_response,
    ext_text,
)
from tests.support import wire

SEND_EXT = {
    "a": "PG", "b": "TopicTest", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1700000000000, "h": 0,
    "i": "UNIQ_KEY\x01AC110001000118B4AAC200000000\x02WAIT\x01true\x02TAGS\x01TagA\x02",
    "j": 0, "k": False, "m": False, "n": "broker-a",
}  # fmt: skip
# Worked frames of the wire sheet, section 7; they state JAVA where pyrmq states PYTHON.
SEND_JSON = (
    '{"code":310,"extFields":{"a":"PG","b":"TopicTest","c":"TBW102","d":"4","e":"0","f":"0",'
    '"g":"1700000000000","h":"0","i":"UNIQ_KEY\\u0001AC110001000118B4AAC200000000\\u0002WAIT'
    '\\u0001true\\u0002TAGS\\u0001TagA\\u0002","j":"0","k":"false","m":"false","n":"broker-a"},'
    '"flag":0,"language":"JAVA","opaque":1,"serializeTypeCurrentRPC":"JSON","version":479}'
)
SEND_BINARY = bytes.fromhex(
    "000000e8010000df01360001df000000010000000000000000000000ca00016100000002504700016200000009546f"
    "7069635465737400016300000006544257"
    "3130320001640000000134000165000000013000016600000001300001670000000d31373030303030303030303030"
    "00016800000001300001690000003a554e"
    "49515f4b4559014143313130303031303030313138423441414332303030303030303002574149540174727565025441"
    "475301546167410200016a0000000130"
    "00016b0000000566616c736500016d0000000566616c736500016e0000000862726f6b65722d6168656c6c6f"
)
ANSWER_BINARY = bytes.fromhex(
    "000000c2010000be00000001df000000010000000100000000000000a900056d73674964000000203746303030303031"
    "3030303032413946303030303030303030303030303030300007717565756549640000000130000b71756575654f66"
    "667365740000000130000d7472616e73616374696f6e49640000001c4143313130"
    "3030313030303131384234414143323030303030303030000854524143455f4f4e0000000474727565000a4d53475f52"
    "4547494f4e0000000d44656661756c74526567696f6e"
)

_TEXT = st.text(max_size=20)
_EXT = st.dictionaries(
    st.text("abcXYZ_09", min_size=1, max_size=6),
    _TEXT | st.integers(-(1 << 63), (1 << 63) - 1) | st.booleans(),
    max_size=5,
)
_INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
_CODEC = st.sampled_from([JSON, ROCKETMQ])


def engine_reads(frame: bytes) -> Command:
    session = Session(Listener(), b"\x7f\0\0\1", 1)
    session.feed_bytes(frame, 0)
    assert session.error is None
    assert session.commands == 1
    command = session.next_command()
    assert command is not None
    assert session.next_command() is None
    return command


def as_python(frame: bytes) -> bytes:
    """A binary frame with PYTHON for JAVA as its language."""
    return frame[:10] + b"\x03" + frame[11:]


def answer(command: Command, response: Response) -> bytes:
    return b"".join(bytes(piece) for piece in encode_response(command, response))


@given(_CODEC, st.integers(0, 32767), _INT32, _EXT, st.binary(max_size=50), st.booleans())
def test_requests(
    codec: int, code: int, opaque: int, ext: dict[str, Any], body: bytes, oneway: bool
) -> None:
    frame = encode_request(code, opaque, ext, body, oneway=oneway, codec=codec)
    second = wire.decode(frame)
    texts = {k: ext_text(v) for k, v in ext.items()}
    assert (second.code, second.opaque, second.ext, second.body) == (code, opaque, texts, body)
    assert (second.serialize, second.language, second.version) == (codec, "PYTHON", 479)
    assert second.flag == (FLAG_ONEWAY if oneway else 0)
    assert second.is_oneway is oneway
    if code not in (10, 310, 320):
        got = engine_reads(frame)
        if codec == ROCKETMQ:  # which has no way to tell an empty text from none
            texts = {k: v for k, v in texts.items() if v}
        assert (got.code, got.opaque, got.ext, got.body) == (code, opaque, texts, body)
        assert (got.codec, got.language, got.is_oneway) == (codec, 3, oneway)


@given(
    _CODEC,
    st.integers(0, 300),
    _INT32,
    _EXT,
    st.none() | _TEXT,
    st.lists(st.binary(max_size=30), max_size=4),
)
def test_responses(
    codec: int,
    code: int,
    opaque: int,
    ext: dict[str, Any],
    remark: str | None,
    body: list[bytes],
) -> None:
    asked = engine_reads(wire.encode(wire.Command(34, opaque=opaque, serialize=codec)))
    second = wire.decode(answer(asked, Response(code, remark, ext, body)))
    assert second.is_response
    assert not second.is_oneway
    assert (second.code, second.opaque, second.serialize) == (code, opaque, codec)
    assert second.ext == {k: ext_text(v) for k, v in ext.items()}
    assert second.remark == (remark if codec == JSON else remark or None)
    assert second.body == b"".join(body)


@pytest.mark.parametrize("codec", [JSON, ROCKETMQ])
def test_an_answer_is_read_by_the_engine(codec: int) -> None:
    asked = engine_reads(wire.encode(wire.Command(34, opaque=9, serialize=codec)))
    response = Response(ResponseCode.TOPIC_NOT_EXIST, "no ä", {"x": True, "y": 5}, b"body")
    got = engine_reads(answer(asked, response))
    assert got.is_response
    assert (got.code, got.opaque, got.remark, got.body) == (17, 9, "no ä", b"body")
    assert got.ext == {"x": "true", "y": "5"}


@pytest.mark.parametrize("codec", [JSON, ROCKETMQ])
def test_a_remark_that_quotes_half_a_surrogate_pair(codec: int) -> None:
    asked = engine_reads(wire.encode(wire.Command(318, opaque=9, serialize=codec)))
    got = engine_reads(answer(asked, Response(29, "é \ud800 is wrong")))
    assert (got.code, got.remark) == (29, "é ? is wrong")


def test_pieces_are_not_copied() -> None:
    asked = engine_reads(wire.encode(wire.Command(34)))
    pieces = [b"ab", b"cd"]
    head, *rest = encode_response(asked, Response(body=pieces))
    assert [id(p) for p in rest] == [id(p) for p in pieces]
    assert wire.decode(bytes(head) + b"abcd").body == b"abcd"
    assert len(encode_response(asked, Response())) == 1


def test_worked_send_json() -> None:
    header = SEND_JSON.replace("JAVA", "PYTHON").encode()
    frame = encode_request(RequestCode.SEND_MESSAGE_V2, 1, SEND_EXT, b"hello")
    assert len(SEND_JSON) == 343
    assert frame == wire.frame(header, b"hello")


def test_worked_send_binary() -> None:
    frame = encode_request(RequestCode.SEND_MESSAGE_V2, 1, SEND_EXT, b"hello", codec=ROCKETMQ)
    assert frame == as_python(SEND_BINARY)


def test_worked_answer_binary() -> None:
    asked = engine_reads(encode_request(RequestCode.HEART_BEAT, 1, codec=ROCKETMQ))
    ext = {
        "msgId": "7F00000100002A9F0000000000000000", "queueId": 0, "queueOffset": 0,
        "transactionId": "AC110001000118B4AAC200000000", "TRACE_ON": True,
        "MSG_REGION": "DefaultRegion",
    }  # fmt: skip
    assert answer(asked, Response(ext=ext)) == as_python(ANSWER_BINARY)


def test_worked_truncated_code() -> None:
    worked = bytes.fromhex("00000019010000150d720001df00000000000000000000000000000000")
    assert encode_request(200050, 0, {}, codec=ROCKETMQ) == as_python(worked)
    assert wire.decode(encode_request(200050, 0, {})).code == 200050


def test_worked_frames_are_read() -> None:
    """As commands of a session without a store: sends come out with their frame."""
    for frame in (SEND_BINARY, wire.frame(SEND_JSON.encode(), b"hello")):
        got = engine_reads(frame)
        assert (got.code, got.language, got.version, got.body) == (310, 0, 479, b"hello")
        assert got.ext == {k: ext_text(v) for k, v in SEND_EXT.items()}
        assert got.frame == frame


@pytest.mark.parametrize(
    ("value", "text"), [(True, "true"), (False, "false"), (1, "1"), (-5, "-5"), ("x", "x")]
)
def test_ext_text(value: str | int | bool, text: str) -> None:
    assert ext_text(value) == text


def test_enum_members_are_numbers() -> None:
    frame = encode_request(RequestCode.HEART_BEAT, 1, {"code": ResponseCode.NO_PERMISSION})
    assert wire.decode(frame).ext == {"code": "16"}
    assert wire.decode(frame).code == 34


def test_codes_are_unique() -> None:
    """But two: RocketMQ says 209 and 210 about access lists as well as about long polling."""
    for table, twice in ((RequestCode, set()), (ResponseCode, {209, 210})):
        assert {m.value for name, m in table.__members__.items() if name != m.name} == twice
    assert not issubclass(PyrmqError, OSError)
