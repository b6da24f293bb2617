"""The tests' own codec against worked bytes that were compared with the Java encoder's output."""

from __future__ import annotations

import pytest

from tests.support import records, wire
from tests.support.wire import BINARY, JSON, Command, FrameReader, WireError

PROPERTIES = {"UNIQ_KEY": "AC110001000118B4AAC200000000", "WAIT": "true", "TAGS": "TagA"}

SEND_V2_JSON = bytes.fromhex(
    "00000160000001577b22636f6465223a3331302c226578744669656c6473223a7b2261223a225047222c2262223a22"
    "546f70696354657374222c2263223a22544257313032222c2264223a2234222c2265223a2230222c2266223a223022"
    "2c2267223a2231373030303030303030303030222c2268223a2230222c2269223a22554e49515f4b45595c75303030"
    "31414331313030303130303031313842344141433230303030303030305c7530303032574149545c75303030317472"
    "75655c7530303032544147535c7530303031546167415c7530303032222c226a223a2230222c226b223a2266616c73"
    "65222c226d223a2266616c7365222c226e223a2262726f6b65722d61227d2c22666c6167223a302c226c616e677561"
    "6765223a224a415641222c226f7061717565223a312c2273657269616c697a655479706543757272656e7452504322"
    "3a224a534f4e222c2276657273696f6e223a3437397d68656c6c6f"
)
SEND_V2_BINARY = bytes.fromhex(
    "000000e8010000df01360001df000000010000000000000000000000ca00016100000002504700016200000009546f"
    "7069635465737400016300000006544257313032000164000000013400016500000001300001660000000130000167"
    "0000000d3137303030303030303030303000016800000001300001690000003a554e49515f4b455901414331313030"
    "3031303030313138423441414332303030303030303002574149540174727565025441475301546167410200016a00"
    "0000013000016b0000000566616c736500016d0000000566616c736500016e0000000862726f6b65722d6168656c6c"
    "6f"
)
ANSWER_JSON = bytes.fromhex(
    "0000011a000001167b22636f6465223a302c226578744669656c6473223a7b2271756575654964223a2230222c2274"
    "72616e73616374696f6e4964223a2241433131303030313030303131384234414143323030303030303030222c226d"
    "73674964223a223746303030303031303030303241394630303030303030303030303030303030222c225452414345"
    "5f4f4e223a2274727565222c224d53475f524547494f4e223a2244656661756c74526567696f6e222c227175657565"
    "4f6666736574223a2230227d2c22666c6167223a312c226c616e6775616765223a224a415641222c226f7061717565"
    "223a312c2273657269616c697a655479706543757272656e74525043223a224a534f4e222c2276657273696f6e223a"
    "3437397d"
)
ANSWER_BINARY = bytes.fromhex(
    "000000c2010000be00000001df000000010000000100000000000000a900056d736749640000002037463030303030"
    "313030303032413946303030303030303030303030303030300007717565756549640000000130000b71756575654f"
    "66667365740000000130000d7472616e73616374696f6e49640000001c414331313030303130303031313842344141"
    "43323030303030303030000854524143455f4f4e0000000474727565000a4d53475f524547494f4e0000000d446566"
    "61756c74526567696f6e"
)
POP_TRUNCATED = bytes.fromhex("00000019010000150d720001df00000000000000000000000000000000")

RECORD = bytes.fromhex(
    "000000b4 daa320a7 69c865ed 00000003 00000000 0000000000000005 0000000000000400 00000000"
    "0000018bcfe56800 7f000001 0000d431 0000018bcfe56805 c0a8010a 00002a9f 00000000"
    "0000000000000000 0000000e 48656c6c6f20526f636b65744d51 09 546f70696354657374 0042"
    "4b455953 01 6f726465722d3432 02 54414753 01 54616741 02 554e49515f4b4559 01"
    "4330413830313041314639303138423441414332343742373630303030303030 02"
)


def send_v2(serialize: int) -> Command:
    """The SEND_MESSAGE_V2 request of the worked example."""
    values = ["PG", "TopicTest", "TBW102", "4", "0", "0", "1700000000000", "0"]
    ext = dict(zip("abcdefgh", values, strict=True))
    ext["i"] = records.encode_properties(PROPERTIES)
    ext |= {"j": "0", "k": "false", "m": "false", "n": "broker-a"}
    return Command(310, ext, b"hello", opaque=1, serialize=serialize)


@pytest.mark.parametrize(
    ("serialize", "data"), [(JSON, SEND_V2_JSON), (BINARY, SEND_V2_BINARY)], ids=["json", "binary"]
)
def test_send_request_both_ways(serialize: int, data: bytes) -> None:
    assert wire.encode(send_v2(serialize)) == data
    assert wire.decode(data) == send_v2(serialize)


@pytest.mark.parametrize("data", [ANSWER_JSON, ANSWER_BINARY], ids=["json", "binary"])
def test_send_answer_both_ways(data: bytes) -> None:
    answer = wire.decode(data)
    assert (answer.code, answer.flag, answer.opaque, answer.version) == (0, 1, 1, 479)
    assert answer.is_response
    assert not answer.is_oneway
    assert answer.body == b""
    assert answer.ext == {
        "msgId": "7F00000100002A9F0000000000000000",
        "queueId": "0",
        "queueOffset": "0",
        "transactionId": "AC110001000118B4AAC200000000",
        "TRACE_ON": "true",
        "MSG_REGION": "DefaultRegion",
    }
    assert wire.encode(answer) == data
    assert records.parse_message_id(answer.ext["msgId"]) == (("127.0.0.1", 10911), 0)


def test_binary_code_is_truncated_like_java() -> None:
    pop = Command(200050, serialize=BINARY)
    assert wire.encode(pop) == POP_TRUNCATED
    assert wire.decode(POP_TRUNCATED).code == 3442


@pytest.mark.parametrize("step", [1, 3, 64, 10_000])
def test_reader_accepts_any_pieces(step: int) -> None:
    stream = SEND_V2_JSON + ANSWER_BINARY + SEND_V2_BINARY + ANSWER_JSON
    reader = FrameReader()
    found = []
    for at in range(0, len(stream), step):
        found += reader.feed(stream[at : at + step])
    assert [command.code for command in found] == [310, 0, 310, 0]
    assert reader.pending == 0


@pytest.mark.parametrize(
    "data",
    [
        wire.frame(b'{"code":0,"flag":1,"extFields":{"queueId":0}}'),
        wire.frame(b'{"code":0,"code":1,"flag":1}'),
        wire.frame(b'{"code":40000,"flag":1}'),
        wire.frame(b'{"code":0,"colour":1}'),
        wire.frame(b"[]"),
        wire.frame(b"{}", serialize=2),
        wire.frame(b"\0" * 20, serialize=BINARY),
        wire.frame(b"\0" * 22, serialize=BINARY),
        b"\0\0\0\x05\0\0\0\x02{",
    ],
    ids=[
        "number", "twice", "int16", "unknown-key", "array", "type", "short", "long", "header",
    ],
)  # fmt: skip
def test_decoder_refuses(data: bytes) -> None:
    with pytest.raises(WireError):
        wire.decode(data)


def test_record_both_ways() -> None:
    record = records.decode_record(RECORD)
    assert record.size == len(RECORD) == 180
    assert (record.topic, record.queue_id, record.queue_offset) == ("TopicTest", 3, 5)
    assert record.physical_offset == 1024
    assert record.born_host == ("127.0.0.1", 54321)
    assert record.store_host == ("192.168.1.10", 10911)
    assert (record.born_timestamp, record.store_timestamp) == (1700000000000, 1700000000005)
    assert record.body == b"Hello RocketMQ"
    uniq_key = "C0A8010A1F9018B4AAC247B760000000"
    expected = {"KEYS": "order-42", "TAGS": "TagA", "UNIQ_KEY": uniq_key}
    assert record.properties == expected
    assert records.encode_properties(expected).encode() == record.properties_raw
    assert record.offset_msg_id == "C0A8010A00002A9F0000000000000400"
    assert records.encode_record(record) == RECORD
    assert records.decode_records(RECORD * 3) == [record] * 3


@pytest.mark.parametrize("at", [3, 4, 8, 87, 90, 102, 112])
def test_damaged_record_is_refused(at: int) -> None:
    damaged = bytearray(RECORD)
    damaged[at] ^= 0x40
    with pytest.raises(WireError):
        records.decode_records(bytes(damaged))


def test_cut_record_is_refused() -> None:
    for end in range(1, len(RECORD)):
        with pytest.raises(WireError):
            records.decode_records(RECORD[:end])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("TagA", 2598919),
        ("CANCELLED", -1031784143),
        ("TopicTest#order-42", -870421153),
        ("\U0001f600", 1772899),  # two UTF-16 units: 0xD83D * 31 + 0xDE00
    ],
)
def test_java_hash(text: str, value: int) -> None:
    assert records.java_hash(text) == value


def test_crc_of_the_record_and_empty_values() -> None:
    assert records.crc31(b"Hello RocketMQ") == 0x69C865ED
    assert records.decode_properties("a\x011\x02b\x01\x02\x01x\x02a\x012=\x013") == {"a": "2=\x013"}


def test_batch_body_layout() -> None:
    body = records.encode_batch([(b"xy", {"A": "1"}), (b"", {})])
    assert body.hex() == (
        "0000001c" + "00000000" * 3 + "00000002" + "7879" + "0004" + "41013102"
        "00000016" + "00000000" * 3 + "00000000" + "0000"
    )  # fmt: skip
