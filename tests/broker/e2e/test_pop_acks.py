"""ACK_MESSAGE, BATCH_ACK_MESSAGE, CHANGE_MESSAGE_INVISIBLETIME: what is taken, and bad handles."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import count

import pytest

from pyrmq.model.pop import MAX_BITS, BatchAck
from tests.broker.e2e.test_requests import create_topic
from tests.support.client import Client
from tests.support.popping import (
    ACK,
    BATCH_ACK,
    CHANGE,
    NO_MESSAGE,
    PoppedMessage,
    ack,
    ack_command,
    pop,
)
from tests.support.records import Record
from tests.support.wire import Command

GROUP = "CG_pop"
_numbers = count()


@pytest.fixture
def topic(client: Client) -> str:
    name = f"Acked{next(_numbers)}"
    create_topic(client, name, 4)
    return name


@pytest.fixture
def message(client: Client, topic: str) -> PoppedMessage:
    client.send(topic, b"m", queue_id=1)
    return pop(client, topic)[0]


def batch_command(*acks: BatchAck, broker: str | None = "broker-a") -> Command:
    body = {"acks": [a.to_json() for a in acks], "brokerName": broker}
    return Command(BATCH_ACK, {}, json.dumps(body).encode())


def batch_of(messages: list[PoppedMessage], topic: str) -> BatchAck:
    first = messages[0].handle
    return BatchAck(
        GROUP,
        topic,
        first.retry,
        first.start,
        first.queue_id,
        first.revive_queue,
        first.pop_time,
        first.invisible_time,
        tuple(m.handle.offset for m in messages),
    )


def revive_records(client: Client) -> list[tuple[str, dict[str, object]]]:
    """Tag and body of the records about POP that wait in the log."""
    records: list[Record] = []
    while (found := client.pull("rmq_sys_wheel_timer", 0, len(records))).records:
        records += found.records
    return [(r.properties["TAGS"], json.loads(r.body)) for r in records if r.body[:1] == b"{"]


def test_an_ack_is_a_record_of_the_check_point(
    client: Client, topic: str, message: PoppedMessage
) -> None:
    ack(client, message)
    (_, point), (tag, record) = [r for r in revive_records(client) if r[1]["t"] == topic]
    assert tag == "ack"
    assert {k: point[k] for k in ("so", "c", "q", "pt")} == {
        "so": 0, "c": GROUP, "q": 1, "pt": message.handle.pop_time,
    }  # fmt: skip
    assert (record["ao"], record["so"], record["pt"]) == (0, 0, message.handle.pop_time)


def test_acks_come_twice_and_late(client: Client, message: PoppedMessage) -> None:
    for _ in range(3):
        ack(client, message)


def test_a_batch_is_one_record_for_each_check_point(client: Client, topic: str) -> None:
    for n in range(4):
        client.send(topic, b"%d" % n)
    messages = pop(client, topic)
    assert client.request(batch_command(batch_of([messages[0], *messages[2:]], topic))).code == 0
    tag, record = [r for r in revive_records(client) if r[1]["t"] == topic][-1]
    assert tag == "bAck"
    assert record["aol"] == [0, 2, 3]


def test_bits_behind_the_queue_are_left_out(client: Client, topic: str) -> None:
    client.send(topic, b"m")
    whole = batch_of(pop(client, topic), topic)
    assert client.request(batch_command(replace(whole, offsets=(0, 7, 900)))).code == 0
    record = [r for r in revive_records(client) if r[1]["t"] == topic][-1][1]
    assert record.get("aol", [record.get("ao")]) == [0]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"acks":[],"brokerName":"broker-a"}', NO_MESSAGE),
        (b"{}", NO_MESSAGE),
        (b'{"acks":7}', 29),
        (b'{"acks":[7]}', 13),
        (b'{"acks":[{}]}', 13),
        (b"no json", 1),
    ],
)
def test_batches_that_are_none(client: Client, body: bytes, code: int) -> None:
    assert client.request(Command(BATCH_ACK, {}, body)).code == code


def test_a_batch_of_millions_of_messages(
    client: Client, topic: str, message: PoppedMessage
) -> None:
    all_bits = replace(batch_of([message], topic), offsets=tuple(range(MAX_BITS)))
    assert client.request(batch_command(all_bits, all_bits)).code == 0
    answer = client.request(batch_command(*3 * [all_bits]))
    assert answer.code == 29
    assert "131072 messages" in (answer.remark or "")


def test_a_batch_of_another_broker(client: Client, topic: str, message: PoppedMessage) -> None:
    answer = client.request(batch_command(batch_of([message], topic), broker="broker-b"))
    assert answer.code == 13
    assert "broker-b" in (answer.remark or "")


@pytest.mark.parametrize("code", [ACK, CHANGE])
@pytest.mark.parametrize(
    ("change", "refused"),
    [
        ({"extraInfo": "no handle"}, 13),
        ({"extraInfo": ""}, 13),
        ({"extraInfo": "0 1 60000 0 7 broker-a 1 0"}, 13),
        ({"extraInfo": "0 1 60000 0 0 broker-b 1 0"}, 13),
        ({"extraInfo": "0 1 60000 0 0 broker-a 2 0"}, 13),
        ({"extraInfo": "0 1 60000 0 0 broker-a 1 5"}, 13),
        ({"extraInfo": "9 1 60000 0 0 broker-a 1 0"}, 13),
        ({"extraInfo": "0 1 60000 8 0 broker-a 1 0"}, 13),
        ({"extraInfo": "0 9000000000000000000 60000 0 0 broker-a 1 0"}, 13),
        ({"extraInfo": "0 1 9000000000000000000 0 0 broker-a 1 0"}, 13),
        ({"topic": "NotThere"}, 17),
        ({"queueId": "4"}, 13),
        ({"queueId": "-1"}, 13),
        ({"offset": "-1"}, NO_MESSAGE),
        ({"offset": "900"}, NO_MESSAGE),
        ({"consumerGroup": "a b"}, 29),
        ({"offset": "text"}, 1),
    ],
)
def test_handles_that_are_forged_or_foreign(
    client: Client, message: PoppedMessage, code: int, change: dict[str, str], refused: int
) -> None:
    before = len(revive_records(client))
    request = ack_command(message, code=code, invisibleTime=1000)
    request.ext.update(change)
    answer = client.request(request)
    assert answer.code == refused, answer.remark
    assert len(revive_records(client)) == before, "nothing is stored"


def test_a_changed_time_gives_a_new_handle(
    client: Client, topic: str, message: PoppedMessage
) -> None:
    answer = client.request(ack_command(message, code=CHANGE, invisibleTime=30_000))
    assert answer.code == 0
    assert answer.ext["invisibleTime"] == "30000"
    new = replace(
        message.handle,
        start=message.handle.offset,
        pop_time=int(answer.ext["popTime"]),
        invisible_time=30_000,
        revive_queue=int(answer.ext["reviveQid"]),
    )
    assert new.pop_time > message.handle.pop_time
    ack(client, replace(message, handle=new))
    tags = [tag for tag, record in revive_records(client) if record["t"] == topic]
    assert tags == ["ck", "ck", "ack", "ack"]


@pytest.mark.parametrize(("time", "code"), [(0, 0), (-1, 29), (100 * 365 * 86_400_000, 29)])
def test_invisible_times(client: Client, message: PoppedMessage, time: int, code: int) -> None:
    answer = client.request(ack_command(message, code=CHANGE, invisibleTime=time))
    assert answer.code == code, answer.remark


def test_there_are_no_records_to_roll_back(client: Client) -> None:
    answer = client.call(200056)
    assert answer.code == 3
    assert "RocksDB" in (answer.remark or "")
