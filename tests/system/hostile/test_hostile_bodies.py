"""Bodies and properties: too large, empty, batches that do not add up, JSON that is none.

Limits: body 4 MiB, properties 31743 bytes, both MESSAGE_ILLEGAL (13) (storage sheet 2.5).
"""

from __future__ import annotations

import struct
import zlib

import pytest

from tests.support.client import (
    HEART_BEAT,
    LOCK_BATCH_MQ,
    REGISTER_BROKER,
    SEND_BATCH_MESSAGE,
    SEND_MESSAGE,
    SEND_MESSAGE_V2,
    UNLOCK_BATCH_MQ,
    VIEW_MESSAGE_BY_ID,
    Client,
    Closed,
    batch_command,
    send_command,
)
from tests.support.records import decode_records, encode_properties, parse_message_id
from tests.support.server import ServerProcess
from tests.support.wire import BINARY, JSON, Command
from tests.system.hostile.probe import PATIENCE, Probe

BOTH = pytest.mark.parametrize("serialize", [JSON, BINARY], ids=["json", "binary"])
BODY_LIMIT = 4 * 1024 * 1024
TOPIC = "BodyTopic"


@BOTH
@pytest.mark.parametrize("code", [SEND_MESSAGE, SEND_MESSAGE_V2], ids=["v1", "v2"])
def test_body_at_and_over_the_limit(client: Client, code: int, serialize: int) -> None:
    over = client.send(TOPIC, b"x" * (BODY_LIMIT + 1), code=code, serialize=serialize)
    assert over.code == 13, f"{over.code} {over.remark}"
    body = bytes(range(256)) * (BODY_LIMIT // 256)
    largest = client.send(TOPIC, body, code=code, serialize=serialize)
    assert largest.code == 0, f"{largest.code} {largest.remark}"
    pulled = client.pull(TOPIC, 0, int(largest.ext["queueOffset"]))
    assert pulled.records[0].body == body, "the largest message is returned although it is large"


@BOTH
def test_empty_body(client: Client, serialize: int) -> None:
    """A zero-length body is "no body", which the store refuses (HookUtils)."""
    assert client.send(TOPIC, b"", serialize=serialize).code == 13


@BOTH
@pytest.mark.parametrize("size", [32_768, 40_000, 65_535, 65_536 + 50, 131_072 + 50, 1_000_000])
def test_oversized_properties(client: Client, size: int, serialize: int) -> None:
    """Sizes that would wrap around in an int16 or uint16 length as well."""
    text = encode_properties({"k": "v" * (size - 3)})
    before = client.max_offset(TOPIC, 1)
    answer = client.send(TOPIC, queue_id=1, properties=text, serialize=serialize)
    assert answer.code == 13, f"{answer.code} {answer.remark}"
    assert client.max_offset(TOPIC, 1) == before


@BOTH
def test_large_properties_are_kept(client: Client, serialize: int) -> None:
    answer = client.send(TOPIC, properties={"k": "v" * 30_000}, serialize=serialize)
    assert answer.code == 0
    record = client.pull(TOPIC, 0, int(answer.ext["queueOffset"])).records[0]
    assert record.properties["k"] == "v" * 30_000


@BOTH
@pytest.mark.parametrize(
    "text",
    [
        "\x01", "\x02", "\x01\x02", "\x02\x02\x02", "=", "TAGS", "TAGS\x01", "\x01v\x02",
        "TAGS\x01a\x01b\x02", "TAGS\x01a\x02TAGS\x01b\x02", "k\x01\x00\x02", "WAIT\x01maybe\x02",
        "KEYS\x01" + "k " * 5000, "UNIQ_KEY\x01x\x02", "DELAY\x01soon\x02", "INNER_NUM\x01-1\x02",
        "TAGS\x01\U0001f600\x02",
    ],
    ids=lambda text: ascii(text[:24]),
)  # fmt: skip
def test_odd_properties(client: Client, text: str, serialize: int) -> None:
    """Stored or refused; a stored one can be read, and its body is the one that was sent."""
    answer = client.send(TOPIC, b"odd", properties=text, serialize=serialize)
    if answer.code != 0:
        assert answer.code in (1, 13), f"{answer.code} {answer.remark}"
        return
    record = client.pull(TOPIC, 0, int(answer.ext["queueOffset"])).records[0]
    assert record.body == b"odd"
    assert "UNIQ_KEY" in record.properties


def entry(size: int, body_size: int, body: bytes, properties_size: int, rest: bytes = b"") -> bytes:
    head = struct.pack(">5i", size, 0, 0, 0, body_size)
    return head + body + struct.pack(">h", properties_size) + rest


GOOD_ENTRY = entry(22 + 4, 4, b"good", 0)
BATCHES = {
    "one-byte": b"\0",
    "cut-head": GOOD_ENTRY[:19],
    "cut-body": GOOD_ENTRY[:22],
    "cut-properties": GOOD_ENTRY[:-1],
    "rest-behind": GOOD_ENTRY + b"xyz",
    "second-cut": GOOD_ENTRY + GOOD_ENTRY[:-3],
    "size-0": GOOD_ENTRY + entry(0, 4, b"evil", 0),
    "size-negative": GOOD_ENTRY + entry(-26, 4, b"evil", 0),
    "size-minimum": GOOD_ENTRY + entry(-(2**31), 4, b"evil", 0),
    "size-small": GOOD_ENTRY + entry(10, 4, b"evil", 0),
    "size-huge": GOOD_ENTRY + entry(2**31 - 1, 4, b"evil", 0),
    "body-negative": GOOD_ENTRY + entry(26, -1, b"evil", 0),
    "body-huge": GOOD_ENTRY + entry(26, 2**31 - 1, b"evil", 0),
    "body-beyond-entry": GOOD_ENTRY + entry(26, 10, b"evil", 0) + GOOD_ENTRY,
    "properties-negative": GOOD_ENTRY + entry(26, 4, b"evil", -1),
    "properties-beyond": GOOD_ENTRY + entry(26, 4, b"evil", 1000),
    "text": b"this is not a batch at all, but long enough for a head",
}


@BOTH
@pytest.mark.parametrize("name", BATCHES)
def test_broken_batch_stores_nothing(client: Client, name: str, serialize: int) -> None:
    """All of a batch or nothing: the good first entry may not be stored either."""
    before = client.max_offset(TOPIC, 2)
    command = send_command(TOPIC, BATCHES[name], queue_id=2, code=SEND_BATCH_MESSAGE, batch=True)
    command.serialize = serialize
    answer = client.request(command)
    assert answer.code in (1, 13), f"{answer.code} {answer.remark}"
    assert client.max_offset(TOPIC, 2) == before


def test_empty_and_oversized_batches(client: Client) -> None:
    before = client.max_offset(TOPIC, 2)
    assert client.request(batch_command(TOPIC, [], queue_id=2)).code in (1, 13)
    large: list[tuple[bytes, dict[str, str]]] = [(b"x" * 100_000, {}) for _ in range(45)]
    assert client.request(batch_command(TOPIC, large, queue_id=2)).code in (1, 13)
    properties = [(b"x", {}), (b"y", {"k": "v" * 31_700})]  # a legal entry, a legal record
    assert client.request(batch_command(TOPIC, properties, queue_id=3)).code == 0
    assert client.max_offset(TOPIC, 2) == before


def test_batch_to_retry_topic(client: Client) -> None:
    assert client.request(batch_command("%RETRY%CG", [(b"x", {})])).code == 13


BROKEN_JSON = [b"", b"{", b"nonsense", b"\xff\xfe", b"\0" * 20, b'{"clientID":']


@pytest.mark.parametrize("body", BROKEN_JSON, ids=repr)
@pytest.mark.parametrize("code", [HEART_BEAT, LOCK_BATCH_MQ, UNLOCK_BATCH_MQ])
def test_broken_json_body(client: Client, code: int, body: bytes) -> None:
    """An error answer; the connection stays."""
    assert client.call(code, body).code != 0
    assert client.send(TOPIC).code == 0


WRONG_JSON = [
    b"[]", b"7", b'"text"', b"null", b"{}", b'{"clientID":{}}', b'{"clientID":"c","mqSet":5}',
    b'{"clientID":"c","consumerDataSet":[7]}', b'{"clientID":"c","consumerDataSet":{"a":1}}',
    b'{"clientID":"c","consumerDataSet":[{"groupName":[],"subscriptionDataSet":"x"}]}',
    b'{"clientId":"c","consumerGroup":"g","mqSet":[{"queueId":"x"},null,[1]]}',
    b'{"clientId":"c","consumerGroup":{},"mqSet":[{"topic":1,"queueId":99999999999}]}',
    b"[" * 500_000, b'{"a":' * 200_000, b'{"x":1,' * 200_000,
]  # fmt: skip


@pytest.mark.parametrize("body", WRONG_JSON, ids=lambda body: repr(body[:60]))
@pytest.mark.parametrize("code", [HEART_BEAT, LOCK_BATCH_MQ, UNLOCK_BATCH_MQ])
def test_json_body_of_the_wrong_shape(client: Client, code: int, body: bytes) -> None:
    """Answered, one way or the other, and the connection stays."""
    client.request(Command(code, {}, body), timeout=PATIENCE)
    assert client.send(TOPIC).code == 0


@pytest.mark.parametrize("offset", [-1, -(2**63), 2**63 - 1, 10**15, "x", ""])
def test_view_outside_the_log(client: Client, offset: int | str) -> None:
    assert client.call(VIEW_MESSAGE_BY_ID, offset=offset).code != 0


def test_view_inside_a_record(client: Client) -> None:
    """An offset that is no record start gives an error or, by luck, bytes that are a record."""
    body = b"\x7f\xff\xff\xff" * 5 + b"\x00\x00\x00\x40\xda\xa3\x20\xa7" * 20
    _, start = parse_message_id(client.send(TOPIC, body).ext["msgId"])
    for offset in range(start, start + 300):
        answer = client.call(VIEW_MESSAGE_BY_ID, offset=offset)
        assert answer.code in (0, 1), answer
        if answer.code == 0:
            assert len(decode_records(answer.body)) == 1
        else:
            assert offset != start


def register(body: bytes, **ext: object) -> Command:
    fields: dict[str, object] = {
        "brokerName": "broker-evil", "brokerAddr": "127.0.0.1:1", "clusterName": "DefaultCluster",
        "haServerAddr": "", "brokerId": 0, "compressed": "false", "bodyCrc32": 0,
    }  # fmt: skip
    return Command(REGISTER_BROKER, {k: str(v) for k, v in (fields | ext).items()}, body)


def bomb() -> bytes:
    """512 MiB of zeros behind a large length word, as half a MiB of zlib stream."""
    packer = zlib.compressobj(9)
    packed = packer.compress(struct.pack(">i", 2**31 - 1))
    zeros = bytes(1 << 24)
    return packed + b"".join(packer.compress(zeros) for _ in range(32)) + packer.flush()


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b"\x78\x9c", b"\x78\x9cgarbage", b"[" * 500_000,
     zlib.compress(b"\0\0"), zlib.compress(struct.pack(">i", -1)),
     zlib.compress(struct.pack(">i", 2**31 - 1) + b"{}"),
     zlib.compress(struct.pack(">i", 2) + b"{}" + struct.pack(">i", 2**31 - 1))],
    ids=lambda body: repr(body[:20]),
)  # fmt: skip
@pytest.mark.parametrize("compressed", ["true", "false"])
def test_broken_registration(server: ServerProcess, body: bytes, compressed: str) -> None:
    """An answer or a close in time; the good broker stays registered (checked after each case)."""
    with Client(server.namesrv) as namesrv:
        try:
            namesrv.request(register(body, compressed=compressed), timeout=PATIENCE)
        except Closed:
            return


def test_registration_bomb(server: ServerProcess, probe: Probe) -> None:
    """A compressed body is not unpacked without bound."""
    before = server.status_kib("VmHWM")
    with Client(server.namesrv) as namesrv:
        try:
            answer = namesrv.request(register(bomb(), compressed="true"), timeout=30)
            assert answer.code != 0
        except Closed:
            pass
    assert server.status_kib("VmHWM") - before < 160 * 1024
    probe.assert_serving()
