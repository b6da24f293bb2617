"""Check-backs: who is asked, what its answer does, what becomes of a half nobody answers for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.client import Client
from tests.support.records import Record
from tests.support.server import ServerProcess
from tests.support.transactions import (
    COMMIT,
    OVERFLOW_TOPIC,
    RESUME_CHECK_HALF_MESSAGE,
    ROLLBACK,
    Half,
    delivered,
    end,
    join_group,
    next_check,
    op_offsets,
    send_half,
)
from tests.support.waiting import eventually
from tests.transactions.e2e.conftest import CONF


def test_a_producer_is_asked_and_its_answer_counts(client: Client, topic: str, group: str) -> None:
    join_group(client, group)
    half = send_half(client, topic, b"asked", group=group, queue_id=3, change={"h": "5"})
    checked, message = next_check(client)
    assert checked.unique_key == checked.transaction_id == half.unique_key
    assert checked.queue_offset > half.queue_offset, "it was appended again"
    assert (message.topic, message.queue_id) == (topic, 3), "it is shown in its real place"
    assert (message.body, message.flag) == (b"asked", 5)
    assert message.properties["TRANSACTION_CHECK_TIMES"] == "1"
    eventually(lambda: half.queue_offset in op_offsets(client), "the older copy is dealt with")
    assert end(client, checked, COMMIT, from_check=True).code == 0
    (found,) = delivered(client, topic)
    assert found.properties["TRANSACTION_CHECK_TIMES"] == "1"
    assert (found.flag, found.prepared_offset) == (5, checked.phys)
    assert end(client, half, COMMIT).code == 0, "the older copy's answer comes late"
    assert len(delivered(client, topic)) == 1


def test_an_answer_about_an_older_copy_counts(client: Client, topic: str, group: str) -> None:
    join_group(client, group)
    half = send_half(client, topic, group=group)
    next_check(client)
    assert end(client, half, COMMIT).code == 0
    assert len(delivered(client, topic)) == 1
    assert end(client, half, COMMIT).code == 0
    assert len(delivered(client, topic)) == 1


def test_another_producer_of_the_group_is_asked(
    process: ServerProcess, client: Client, topic: str, group: str
) -> None:
    with Client(process.broker) as first:
        join_group(first, group, client_id="first")
        half = send_half(first, topic, group=group)
    join_group(client, group, client_id="second")
    checked, _ = next_check(client)
    assert checked.unique_key == half.unique_key
    assert end(client, checked, ROLLBACK, from_check=True).code == 0
    assert delivered(client, topic) == []


def test_producers_of_a_group_take_turns(
    process: ServerProcess, client: Client, topic: str, group: str
) -> None:
    with Client(process.broker) as other:
        join_group(client, group, client_id="one")
        join_group(other, group, client_id="two")
        send_half(client, topic, group=group)
        asked = [next_check(c)[1].properties["TRANSACTION_CHECK_TIMES"] for c in (client, other)]
        assert sorted(asked) == ["1", "2"], "the one that does not answer is not asked again first"


def discarded_record(client: Client, half: Half) -> Record:
    """The message of a half in the overflow topic, once it is there."""
    found: list[Record] = []

    def there() -> bool:
        records = delivered(client, OVERFLOW_TOPIC, 1)
        found[:] = [r for r in records if r.properties["UNIQ_KEY"] == half.unique_key]
        return bool(found)

    eventually(there, "it is discarded")
    (record,) = found
    return record


def test_nobody_answers_it_is_discarded_and_a_late_word_still_counts(
    client: Client, topic: str, group: str
) -> None:
    join_group(client, group)
    half = send_half(client, topic, group=group)
    counts = [next_check(client)[1].properties["TRANSACTION_CHECK_TIMES"] for _ in range(3)]
    assert counts == ["1", "2", "3"]
    discarded = discarded_record(client, half)
    assert discarded.properties["TRANSACTION_CHECK_TIMES"] == "3"
    assert delivered(client, topic) == []
    assert end(client, half, COMMIT).code == 0
    assert len(delivered(client, topic)) == 1
    assert end(client, half, COMMIT).code == 0
    assert len(delivered(client, topic)) == 1, "late, but once"
    assert not [c for c in client.pushed if c.ext.get("msgId") == half.unique_key]
    answer = client.call(RESUME_CHECK_HALF_MESSAGE, msgId=discarded.offset_msg_id)
    assert (answer.code, bool(answer.remark)) == (1, True), "it was delivered"


def test_what_was_discarded_is_taken_up_again(client: Client, topic: str, group: str) -> None:
    join_group(client, group)
    half = send_half(client, topic, group=group)
    for _ in range(3):
        next_check(client)
    discarded = discarded_record(client, half)
    answer = client.call(RESUME_CHECK_HALF_MESSAGE, msgId=discarded.offset_msg_id)
    assert answer.code == 0, answer.remark
    again = client.call(RESUME_CHECK_HALF_MESSAGE, msgId=discarded.offset_msg_id)
    assert again.code != 0, "it waits already"
    checked, message = next_check(client)
    assert message.properties["TRANSACTION_CHECK_TIMES"] == "1"
    assert end(client, checked, COMMIT, from_check=True).code == 0
    assert len(delivered(client, topic)) == 1
    once_more = client.call(RESUME_CHECK_HALF_MESSAGE, msgId=discarded.offset_msg_id)
    assert (once_more.code, bool(once_more.remark)) == (1, True), "it was committed"


def test_what_was_discarded_can_be_rolled_back(client: Client, topic: str, group: str) -> None:
    join_group(client, group)
    half = send_half(client, topic, group=group)
    for _ in range(3):
        next_check(client)
    discarded = discarded_record(client, half)
    assert end(client, half, ROLLBACK).code == 0
    assert end(client, half, COMMIT).code == 201, "TRANSACTION_SHOULD_ROLLBACK"
    assert delivered(client, topic) == []
    assert client.call(RESUME_CHECK_HALF_MESSAGE, msgId=discarded.offset_msg_id).code == 1


@pytest.mark.parametrize("msg_id", ["nonsense", "", "0" * 32, "F" * 32, "7F0000010000" * 3])
def test_resuming_what_was_not_discarded(client: Client, msg_id: str) -> None:
    answer = client.call(RESUME_CHECK_HALF_MESSAGE, msgId=msg_id)
    assert answer.code in (1, 29)
    assert answer.remark


def test_a_late_word_counts_once_across_restarts(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "store", conf=CONF) as server:
        with Client(server.broker) as client:
            join_group(client, "PG_late")
            half = send_half(client, "Late", group="PG_late")
            for _ in range(3):
                next_check(client)
            discarded_record(client, half)
        for expected in (1, 1):
            server.kill()
            server.start()
            with Client(server.broker) as client:
                eventually(lambda: end(client, half, COMMIT).code == 0, "the index is complete")
                assert len(delivered(client, "Late")) == expected


def test_immunity_holds_checks_back_and_then_only_they_count(
    client: Client, topic: str, group: str
) -> None:
    join_group(client, group)
    immune = send_half(
        client, topic, group=group, properties={"CHECK_IMMUNITY_TIME_IN_SECONDS": "1"}
    )
    send_half(client, topic, group=group, key="B" + immune.unique_key)
    checked, _ = next_check(client)
    assert checked.unique_key == "B" + immune.unique_key, "the one without immunity comes first"
    assert end(client, checked, ROLLBACK, from_check=True).code == 0
    checked, _ = next_check(client)
    assert checked.unique_key == immune.unique_key
    late = end(client, immune, COMMIT)
    assert (late.code, bool(late.remark)) == (604, True)
    assert end(client, checked, COMMIT, from_check=True).code == 0
    assert len(delivered(client, topic)) == 1


def test_immunity_lets_a_quick_answer_through(client: Client, topic: str, group: str) -> None:
    half = send_half(
        client, topic, group=group, properties={"CHECK_IMMUNITY_TIME_IN_SECONDS": "60"}
    )
    assert end(client, half, COMMIT).code == 0
    assert len(delivered(client, topic)) == 1
