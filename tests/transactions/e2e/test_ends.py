"""END_TRANSACTION on the wire, what stands in the store, figures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.client import (
    QUERY_CONSUMER_OFFSET,
    UPDATE_CONSUMER_OFFSET,
    Client,
    batch_command,
    pull_command,
    send_command,
)
from tests.support.records import Record, encode_record
from tests.support.server import ServerProcess
from tests.support.transactions import (
    COMMIT,
    GROUP,
    HALF_TOPIC,
    OP_TOPIC,
    OVERFLOW_TOPIC,
    RESUME_CHECK_HALF_MESSAGE,
    ROLLBACK,
    UNKNOWN,
    Half,
    delivered,
    end,
    end_command,
    half_command,
    join_group,
    next_check,
    op_offsets,
    send_half,
    stored_half,
)
from tests.support.waiting import eventually
from tests.support.wire import BINARY, JSON
from tests.transactions.e2e.conftest import CONF

GET_BROKER_RUNTIME_INFO = 28


def half_record(client: Client, half: Half) -> Record:
    (record,) = client.pull_all(HALF_TOPIC, 0, half.queue_offset, half.queue_offset + 1)
    return record


@pytest.mark.parametrize("serialize", [JSON, BINARY])
def test_a_committed_half_is_delivered_as_it_was_sent(
    client: Client, topic: str, group: str, serialize: int
) -> None:
    half = send_half(
        client,
        topic,
        b"body",
        group=group,
        queue_id=2,
        properties={"TAGS": "a", "KEYS": "k1", "mine": "ä"},
        change={"h": "77"},
        serialize=serialize,
    )
    assert half.queue_id == 2, "the answer names the real queue"
    assert half.transaction_id == half.unique_key
    stored = half_record(client, half)
    assert (stored.physical_offset, stored.queue_id) == (half.phys, 0)
    assert stored.sys_flag & 0xC == 0, "a half is queued like any message"
    assert delivered(client, topic) == []
    assert end(client, half, COMMIT, serialize=serialize).code == 0
    (message,) = delivered(client, topic)
    assert (message.topic, message.queue_id, message.queue_offset) == (topic, 2, 0)
    assert (message.body, message.flag) == (b"body", 77)
    assert message.sys_flag & 0xC == COMMIT
    assert message.prepared_offset == half.phys
    assert message.born_timestamp == stored.born_timestamp
    assert message.born_host == stored.born_host
    assert message.properties_raw == stored.properties_raw
    assert message.properties == {
        "TAGS": "a", "KEYS": "k1", "mine": "ä", "WAIT": "true", "TRAN_MSG": "true",
        "PGROUP": group, "UNIQ_KEY": half.unique_key, "__transactionId__": half.unique_key,
        "REAL_TOPIC": topic, "REAL_QID": "2", "MSG_REGION": "DefaultRegion", "TRACE_ON": "true",
        "CLUSTER": "DefaultCluster",
    }  # fmt: skip
    assert op_offsets(client).count(half.queue_offset) == 1
    assert client.pull(topic, 2, 0, subscription="a").records, "its tag is in the queue"
    assert not client.pull(topic, 2, 0, subscription="b").records


def test_a_rolled_back_half_is_never_delivered(client: Client, topic: str, group: str) -> None:
    half = send_half(client, topic, group=group)
    assert end(client, half, ROLLBACK).code == 0
    assert delivered(client, topic) == []
    assert half.queue_offset in op_offsets(client)
    assert end(client, half, COMMIT).code == 201, "settled: what comes later changes nothing"
    assert delivered(client, topic) == []


def test_what_is_settled_is_not_delivered_again(client: Client, topic: str, group: str) -> None:
    half = send_half(client, topic, group=group)
    for state in (COMMIT, COMMIT, ROLLBACK, COMMIT):
        code = 0 if state == COMMIT else 200
        assert end(client, half, state).code == code
        assert end(client, half, state, from_check=True).code == code
    assert len(delivered(client, topic)) == 1
    assert op_offsets(client).count(half.queue_offset) == 1


def test_one_way_ends_of_one_read_share_an_op_record(
    client: Client, topic: str, group: str
) -> None:
    halves = [send_half(client, topic, group=group) for _ in range(40)]
    before = client.max_offset(OP_TOPIC, 0)
    for half in halves:
        client.oneway(end_command(half, COMMIT))
    eventually(lambda: len(delivered(client, topic)) == 40, "all are delivered")
    assert op_offsets(client)[-40:] == [h.queue_offset for h in halves]
    assert client.max_offset(OP_TOPIC, 0) - before < 40


def test_unknown_gets_no_answer_and_changes_nothing(client: Client, topic: str, group: str) -> None:
    half = send_half(client, topic, group=group)
    client.post(end_command(half, UNKNOWN))
    assert delivered(client, topic) == [], "the next answers are those of other requests"
    assert end(client, half, COMMIT).code == 0
    assert len(delivered(client, topic)) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"producerGroup": "PG_other"},
        {"tranStateTableOffset": "999999"},
        {"commitLogOffset": "5"},
        {"commitLogOffset": "-1"},
        {"commitLogOffset": str(1 << 62)},
        {"commitOrRollback": "7"},
        {"commitOrRollback": None},
        {"producerGroup": None},
        {"tranStateTableOffset": "x"},
        {"msgId": "OTHER", "transactionId": "OTHER"},
    ],
)
def test_an_end_that_is_about_something_else_is_refused(
    client: Client, topic: str, group: str, change: dict[str, str | None]
) -> None:
    half = send_half(client, topic, group=group)
    answer = end(client, half, COMMIT, change=change)
    assert answer.code == 1
    assert answer.remark
    assert delivered(client, topic) == []
    assert end(client, half, COMMIT, change={"msgId": "", "transactionId": None}).code == 0
    assert len(delivered(client, topic)) == 1


def test_an_end_about_a_plain_message_is_refused(client: Client, topic: str) -> None:
    answer = client.send(topic, properties={"UNIQ_KEY": "U", "PGROUP": "PG_test"})
    plain = Half("PG_test", "U", 0, 0, int(answer.ext["msgId"][-16:], 16), "", "U")
    assert end(client, plain, COMMIT).code == 1
    assert len(delivered(client, topic)) == 1


@pytest.mark.parametrize(
    ("properties", "code"),
    [
        ({"DELAY": "3"}, 13),
        ({"TIMER_DELAY_SEC": "3"}, 13),
        ({"PGROUP": ""}, 13),
        ({"PGROUP": "a/b"}, 13),
        ({"INNER_NUM": "2"}, 13),
    ],
)
def test_halves_that_are_refused(
    client: Client, topic: str, group: str, properties: dict[str, str], code: int
) -> None:
    before = client.max_offset(HALF_TOPIC, 0)
    answer = client.request(half_command(topic, group=group, properties=properties))
    assert (answer.code, bool(answer.remark)) == (code, True)
    assert client.max_offset(HALF_TOPIC, 0) == before


def test_a_half_has_room_for_the_count_of_its_checks(
    client: Client, topic: str, group: str
) -> None:
    """And for all else that later steps add to it."""
    short = send_half(client, topic, group=group, properties={"pad": "x"})
    stored = len(half_record(client, short).properties_raw)
    room = 31743 - stored
    fits = send_half(client, topic, group=group, properties={"pad": "x" * (1 + room)})
    answer = client.request(half_command(topic, group=group, properties={"pad": "x" * (2 + room)}))
    assert (answer.code, bool(answer.remark)) == (13, True)
    for half in (short, fits):
        assert end(client, half, ROLLBACK).code == 0


def test_a_batch_holds_no_halves(client: Client, topic: str) -> None:
    entries = [(b"x", {"TRAN_MSG": "true", "PGROUP": "g"})]
    assert client.request(batch_command(topic, entries)).code == 13


def test_transaction_bits_without_the_property_are_refused(client: Client, topic: str) -> None:
    assert client.request(send_command(topic, change={"f": "4"})).code == 13


def test_the_broker_keeps_its_own_books(client: Client, topic: str, group: str) -> None:
    """What a client says in the broker's properties is not believed."""
    half = send_half(
        client, topic, group=group, queue_id=1,
        properties={"REAL_TOPIC": "Elsewhere", "REAL_QID": "9", "__transactionId__": "x",
                    "TRANSACTION_CHECK_TIMES": "15", "TRAN_PREPARED_QUEUE_OFFSET": "3"},
    )  # fmt: skip
    properties = half_record(client, half).properties
    assert (properties["REAL_TOPIC"], properties["REAL_QID"]) == (topic, "1")
    assert properties["__transactionId__"] == half.unique_key
    assert "TRANSACTION_CHECK_TIMES" not in properties
    assert "TRAN_PREPARED_QUEUE_OFFSET" not in properties
    assert end(client, half, ROLLBACK).code == 0


def test_a_half_makes_its_topic(client: Client, group: str) -> None:
    half = send_half(client, "TxNew", group=group)
    assert end(client, half, COMMIT).code == 0
    assert len(delivered(client, "TxNew")) == 1


def test_a_half_without_a_unique_key_gets_one(client: Client, topic: str, group: str) -> None:
    command = half_command(topic, group=group, properties={"UNIQ_KEY": ""})
    half = stored_half(command, client.request(command))
    assert len(half.transaction_id) == 32
    assert end(client, half, COMMIT).code == 0


def test_progress_stands_in_the_offsets_of_the_system_group(tmp_path: Path) -> None:
    with (
        ServerProcess(tmp_path / "store", conf=CONF) as server,
        Client(server.broker) as client,
    ):

        def kept() -> list[int]:
            answers = [
                client.call(QUERY_CONSUMER_OFFSET, consumerGroup=GROUP, topic=topic, queueId=0)
                for topic in (HALF_TOPIC, OP_TOPIC)
            ]
            return [int(answer.ext.get("offset", -1)) for answer in answers]

        halves = [send_half(client, "Progress") for _ in range(4)]
        for half in halves[:2] + halves[3:]:
            assert end(client, half, COMMIT).code == 0
        eventually(lambda: kept()[0] == 2, "the third half is the first that waits")
        assert kept()[1] <= 2, "the op record of the fourth is still needed"
        assert end(client, halves[2], ROLLBACK).code == 0
        eventually(lambda: kept() == [4, 4], "nothing waits")


def test_no_client_sets_the_progress(client: Client, topic: str, group: str) -> None:
    answer = client.call(
        UPDATE_CONSUMER_OFFSET, consumerGroup=GROUP, topic=HALF_TOPIC, queueId=0, commitOffset=9
    )
    assert (answer.code, bool(answer.remark)) == (16, True)
    pulled = client.request(
        pull_command(HALF_TOPIC, 0, 0, group=GROUP, sys_flag=5, change={"commitOffset": "9"})
    )
    assert pulled.code == 16


@pytest.mark.parametrize("claimed", [HALF_TOPIC, OVERFLOW_TOPIC])
def test_a_record_inside_of_a_body_is_no_half(
    client: Client, topic: str, group: str, claimed: str
) -> None:
    """A body may be made to look like a record that begins where it does."""
    half = send_half(client, topic, group=group)
    record = half_record(client, half)
    ids = [client.send(topic, b"x" * 10).ext["msgId"] for _ in range(2)]
    first, second = (int(text[-16:], 16) for text in ids)
    body_at = second + (second - first) + 88  # behind the fixed part of the record to come
    forged = replace(
        record,
        topic=claimed,
        physical_offset=body_at,
        properties_raw=record.properties_raw.replace(topic.encode(), OP_TOPIC.encode()),
    )
    answer = client.send(topic, encode_record(forged))
    assert int(answer.ext["msgId"][-16:], 16) + 88 == body_at, "it stands where it says"
    about = Half(group, half.unique_key, 0, forged.queue_offset, body_at, "", half.unique_key)
    assert end(client, about, COMMIT).code == 1
    offset_id = ids[0][:-16] + f"{body_at:016X}"
    assert client.call(RESUME_CHECK_HALF_MESSAGE, msgId=offset_id).code == 1
    assert end(client, half, ROLLBACK).code == 0


def test_figures(client: Client, topic: str, group: str) -> None:
    def figure(name: str) -> int:
        table = json.loads(client.call(GET_BROKER_RUNTIME_INFO).body)["table"]
        return int(table[f"transaction{name}"])

    before = {n: figure(n) for n in ("HalfCount", "CommitCount", "RollbackCount", "PendingCount")}
    halves = [send_half(client, topic, group=group) for _ in range(3)]
    assert figure("HalfCount") == before["HalfCount"] + 3
    assert figure("PendingCount") == before["PendingCount"] + 3
    for half, state in zip(halves, (COMMIT, COMMIT, ROLLBACK), strict=True):
        assert end(client, half, state).code == 0
    assert figure("CommitCount") == before["CommitCount"] + 2
    assert figure("RollbackCount") == before["RollbackCount"] + 1
    assert figure("PendingCount") == before["PendingCount"]


@pytest.mark.parametrize(("first", "code"), [(COMMIT, 200), (ROLLBACK, 201)])
def test_the_other_decision_is_answered_with_the_one_that_counts(
    client: Client, topic: str, group: str, first: int, code: int
) -> None:
    """TRANSACTION_SHOULD_COMMIT and TRANSACTION_SHOULD_ROLLBACK."""
    half = send_half(client, topic, group=group)
    assert end(client, half, first).code == 0
    answer = end(client, half, ROLLBACK if first == COMMIT else COMMIT)
    assert answer.code == code
    assert half.unique_key in answer.remark
    assert group in answer.remark
    assert end(client, half, first).code == 0
    assert len(delivered(client, topic)) == int(first == COMMIT)


def test_waiting_halves_are_counted_in_a_file(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "store", conf=CONF) as server:
        with Client(server.broker) as client:
            send_half(client, "Counted")
            end(client, send_half(client, "Other"), COMMIT)
        server.terminate()
    file = json.loads((tmp_path / "store/config/transactionMetrics").read_bytes())
    assert file["transactionCount"]["Counted"]["count"] == 1
    assert file["transactionCount"].get("Other", {"count": 0})["count"] == 0
    assert file["dataVersion"]["counter"] >= 1


def test_a_broker_may_refuse_transactions(tmp_path: Path) -> None:
    conf = "rejectTransactionMessage=true\n"
    with (
        ServerProcess(tmp_path / "store", conf=conf) as server,
        Client(server.broker) as client,
    ):
        answer = client.request(half_command("T"))
        assert (answer.code, bool(answer.remark)) == (16, True)


def test_a_restart_keeps_what_waits_and_what_is_settled(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    store = tmp_path_factory.mktemp("txr") / "store"
    with ServerProcess(store, conf=CONF) as server:
        for kill in (False, True):
            with Client(server.broker) as client:
                waits = send_half(client, "R", group="PG_r", queues=4)
                done = send_half(client, "R", group="PG_r")
                assert end(client, done, COMMIT).code == 0
                before = len(delivered(client, "R"))
            if kill:
                server.kill()
                server.start()
            else:
                server.restart()
            with Client(server.broker) as client:
                assert end(client, done, COMMIT).code == 0
                assert len(delivered(client, "R")) == before, "settled before: not again"
                join_group(client, "PG_r")
                checked, _ = next_check(client)
                assert checked.unique_key == waits.unique_key
                assert end(client, checked, COMMIT, from_check=True).code == 0
                assert len(delivered(client, "R")) == before + 1
