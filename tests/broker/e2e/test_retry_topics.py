"""Messages that consumers send back themselves: retry and dead-letter topics, in both flush modes.

These sends go through Python and not through the session, so durability and wake-ups are checked
here for them on their own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.support.client import LOCK_BATCH_MQ, PULL_SUSPEND, Client, pull_command, send_command
from tests.support.delays import SCHEDULE_TOPIC, is_unknown, log_end, place, record_at
from tests.support.server import ServerProcess

_numbers = count()


@pytest.fixture(scope="module", params=["ASYNC_FLUSH", "SYNC_FLUSH"])
def process(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    folder: Path = tmp_path_factory.mktemp("retry")
    with ServerProcess(folder / "store", flush=request.param) as server:
        yield server


@pytest.fixture
def group() -> str:
    return f"Group{next(_numbers)}"


def test_a_retry_message_is_stored_in_the_groups_topic(client: Client, group: str) -> None:
    answer = client.send(f"%RETRY%{group}", b"again", change={"j": "3"})
    assert (answer.code, answer.ext["queueOffset"]) == (0, "0")
    (record,) = client.pull_all(f"%RETRY%{group}", 0, 0, 1)
    assert (record.body, record.reconsume_times) == (b"again", 3)


def test_a_retry_message_gets_a_unique_key(client: Client, group: str) -> None:
    """As every single message; one that has a key keeps it."""
    made = client.send(f"%RETRY%{group}", b"none").ext["transactionId"]
    kept = client.send(f"%RETRY%{group}", b"own", properties={"UNIQ_KEY": "K"})
    assert kept.ext["transactionId"] == "K"
    records = client.pull_all(f"%RETRY%{group}", 0, 0, 2)
    assert [r.properties["UNIQ_KEY"] for r in records] == [made, "K"]


@pytest.mark.parametrize("how", [{"properties": {"INNER_NUM": "2"}}, {"change": {"f": "128"}}])
def test_a_retry_message_is_no_inner_batch(
    client: Client, group: str, how: dict[str, dict[str, str]]
) -> None:
    answer = client.send(f"%RETRY%{group}", b"one", **how)
    assert answer.code == 13
    assert "BatchCQ" in (answer.remark or "")


def test_too_many_retries_end_in_the_dead_letter_topic(client: Client, group: str) -> None:
    answer = client.send(f"%RETRY%{group}", b"dead", change={"j": "17"})
    assert (answer.code, answer.ext["queueId"]) == (0, "0")
    (record,) = client.pull_all(f"%DLQ%{group}", 0, 0, 1)
    assert record.body == b"dead"


def test_what_an_orderly_consumer_gives_up_is_a_dead_letter(client: Client, group: str) -> None:
    """It holds queue locks, and its message carries the delay level of a retry."""
    client.send("Ordered")
    queue = {"topic": "Ordered", "brokerName": "broker-a", "queueId": 0}
    body = {"consumerGroup": group, "clientId": "one", "mqSet": [queue]}
    assert client.call(LOCK_BATCH_MQ, json.dumps(body).encode()).code == 0
    answer = client.send(f"%RETRY%{group}", b"given up", properties={"DELAY": "4"})
    assert answer.code == 0, answer.remark
    (record,) = client.pull_all(f"%DLQ%{group}", 0, 0, 1)
    assert record.body == b"given up"
    assert "DELAY" not in record.properties


def test_a_delayed_retry_waits_for_its_time(client: Client, group: str) -> None:
    answer = client.send(f"%RETRY%{group}", b"later", properties={"DELAY": "4"}, change={"j": "3"})
    waits = record_at(client, place(answer))
    assert (waits.topic, waits.queue_id) == (SCHEDULE_TOPIC, 3)
    assert (waits.body, waits.reconsume_times) == (b"later", 3)
    assert waits.properties["REAL_TOPIC"] == f"%RETRY%{group}"
    assert client.max_offset(f"%RETRY%{group}", 0) == 0


def test_a_retry_without_a_level_that_can_be_meant_is_refused(client: Client, group: str) -> None:
    """It is not stored, and its topic is not made."""
    end = log_end(client)
    for level in ("soon", "1.5"):
        answer = client.send(f"%RETRY%{group}", b"later", properties={"DELAY": level})
        assert answer.code == 13
        assert "DELAY" in (answer.remark or "")
    assert log_end(client) == end
    assert is_unknown(client, f"%RETRY%{group}")


def test_a_parked_pull_is_woken_by_a_retry_message(
    client: Client, process: ServerProcess, group: str
) -> None:
    topic = f"%RETRY%{group}"
    client.send(topic, b"first")
    with Client(process.broker) as waiting:
        waiting.post(pull_command(topic, 0, 1, sys_flag=PULL_SUSPEND | 4, suspend_ms=20_000))
        client.send(topic, b"second")
        assert waiting.receive().code == 0


def test_a_pull_that_is_parked_during_a_flush_is_woken_by_it(
    client: Client, process: ServerProcess, group: str
) -> None:
    """Sends and parked pulls race for the same offset: each pull gets its message long before the
    20 s that it would wait."""
    topic = f"Race{group}"
    client.send(topic, queue_id=0)
    with Client(process.broker) as waiting:
        for offset in range(1, 200):
            client.post(send_command(topic, b"x"))
            waiting.post(
                pull_command(topic, 0, offset, sys_flag=PULL_SUSPEND | 4, suspend_ms=20_000)
            )
            assert waiting.receive().code == 0, offset
            client.receive()
