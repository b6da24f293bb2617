"""Messages that wait (halves, delayed ones, returned ones) while their topic shrinks or is deleted:
they are delivered where consumers read, or are left out with a line in the log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyrmq.engine import Store
from tests.support.client import Client
from tests.support.delays import await_records, is_unknown, levels, place, send_back, sent
from tests.support.operators import create_topic
from tests.support.records import encode_properties
from tests.support.server import ServerProcess
from tests.support.transactions import COMMIT, HALF_TOPIC, ROLLBACK, Half, end, send_half
from tests.support.waiting import eventually

DELETE_TOPIC_IN_BROKER = 215
UPDATE_AND_CREATE_SUBSCRIPTIONGROUP = 200
CONF = "messageDelayLevel=2s 1s\n"


@pytest.fixture
def process(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "store", conf=CONF, log=tmp_path / "log") as server:
        yield server


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def delivered(client: Client, level: int, count: int) -> None:
    eventually(
        lambda: levels(client)[level - 1],
        f"{count} messages of level {level} are dealt with",
        until=lambda found: found == (count, count),
    )


def test_what_waits_for_a_queue_that_is_gone_goes_to_one_that_is_read(
    client: Client, log: Path
) -> None:
    assert create_topic(client, "Shrinks", 8).code == 0
    halves = [send_half(client, "Shrinks", queue_id=queue) for queue in (1, 7)]
    for queue in (6, 6, 2):
        assert client.send("Shrinks", b"late", queue_id=queue, properties={"DELAY": "1"}).code == 0
    assert create_topic(client, "Shrinks", 4).code == 0
    assert [end(client, half, COMMIT).code for half in halves] == [0, 0]
    delivered(client, 1, 3)
    ends = [client.max_offset("Shrinks", queue) for queue in range(8)]
    assert ends == [0, 1, 3, 1, 0, 0, 0, 0]
    assert "Shrinks has 4 queues that are read" in log.read_text()


def test_a_retry_goes_to_a_queue_that_is_read(client: Client) -> None:
    """Also where the retry topic was made smaller while it waited."""
    assert create_topic(client, "%RETRY%Small", 8).code == 0
    for _ in range(20):
        assert send_back(client, sent(client), "Small", 1).code == 0
    assert create_topic(client, "%RETRY%Small", 1).code == 0
    for _ in range(5):
        assert send_back(client, sent(client), "Small", 1).code == 0
    delivered(client, 1, 25)
    assert [client.max_offset("%RETRY%Small", queue) for queue in range(8)] == [25] + [0] * 7


def test_a_topic_that_has_more_queues_to_write_than_to_read(client: Client) -> None:
    """What comes back goes to those that are read."""
    assert create_topic(client, "%RETRY%Few", 8, readQueueNums=2).code == 0
    for _ in range(20):
        assert send_back(client, sent(client), "Few", 1).code == 0
    delivered(client, 1, 20)
    ends = [client.max_offset("%RETRY%Few", queue) for queue in range(8)]
    assert sum(ends[:2]) == 20


@pytest.mark.parametrize("restart", [False, True])
def test_what_waits_for_a_topic_that_was_deleted(
    process: ServerProcess, log: Path, restart: bool
) -> None:
    with Client(process.broker) as client:
        for topic in ("Gone", "Stays"):
            assert create_topic(client, topic).code == 0
            assert client.send(topic, b"x", properties={"DELAY": "1"}).code == 0
        half = send_half(client, "Gone")
        assert client.call(DELETE_TOPIC_IN_BROKER, topic="Gone").code == 0
    if restart:
        process.kill()
        process.restart()
    with Client(process.broker) as client:
        delivered(client, 1, 2)
        answer = end(client, half, COMMIT)
        assert (answer.code, "does not exist" in (answer.remark or "")) == (13, True)
        assert is_unknown(client, "Gone")
        assert client.max_offset("Stays", 0) == 1
        assert "1 delayed messages are left out: their topic Gone was deleted" in log.read_text()
        assert create_topic(client, "Gone").code == 0  # what comes from here on is delivered
        assert client.max_offset("Gone", 0) == 0
        assert client.send("Gone", b"new", properties={"DELAY": "2"}).code == 0
        assert [record.body for record in await_records(client, "Gone", 1)] == [b"new"]
        assert end(client, half, COMMIT).code == 0
        assert [record.body for record in await_records(client, "Gone", 2)] == [b"new", b"half"]


def test_a_topic_whose_configuration_was_lost_is_made_again(
    process: ServerProcess, tmp_path: Path
) -> None:
    """A delayed message waits, and topics.json is gone: whoever looks for its topic finds it."""
    with Client(process.broker) as client:
        assert create_topic(client, "Lost", 3).code == 0
        assert client.send("Lost", b"x", queue_id=2, properties={"DELAY": "1"}).code == 0
    process.kill()
    for file in (tmp_path / "store" / "config").glob("topics.json*"):
        file.unlink()
    process.restart()
    with Client(process.broker) as client:
        delivered(client, 1, 1)
        eventually(lambda: not is_unknown(client, "Lost"), "the topic is known again")
        assert [r.body for r in client.pull_all("Lost", 2, 0, 1)] == [b"x"]


@pytest.mark.parametrize("queue_id", [None, "-1", "4294967296", "x", ""])
def test_a_half_that_can_never_be_delivered_is_not_committed(
    tmp_path: Path, queue_id: str | None
) -> None:
    """Another program's, or a damaged one: its commit says so, and the log names it at the
    start."""
    properties = {"UNIQ_KEY": "K", "TRAN_MSG": "true", "PGROUP": "P", "REAL_TOPIC": "T"}
    text = encode_properties(properties)
    if queue_id is not None:
        text += f"REAL_QID\x01{queue_id}\x02"
    store = Store(tmp_path / "store")
    phys, _, offset, _ = store.put(HALF_TOPIC, 0, b"x", text)
    store.close()
    log = tmp_path / "log"
    with ServerProcess(tmp_path / "store", log=log) as server, Client(server.broker) as client:
        assert create_topic(client, "T").code == 0
        half = Half("P", "K", 0, offset, phys, "", "")
        answer = end(client, half, COMMIT)
        assert answer.code != 0
        assert "REAL_QID" in (answer.remark or "")
        assert end(client, half, ROLLBACK).code == 0
        assert client.max_offset("T", 0) == 0
    assert "offset 0 of RMQ_SYS_TRANS_HALF_TOPIC can never be committed" in log.read_text()


def test_of_two_tran_msg_properties_the_last_one_counts(client: Client) -> None:
    """As in Java's map, which cannot hold both."""
    assert create_topic(client, "Twice").code == 0
    text = "UNIQ_KEY\x01A\x02PGROUP\x01P\x02TRAN_MSG\x01true\x02TRAN_MSG\x01false\x02"
    assert client.send("Twice", b"plain", properties=text).code == 0
    assert client.max_offset("Twice", 0) == 1
    assert client.max_offset(HALF_TOPIC, 0) == 0
    text = "UNIQ_KEY\x01B\x02PGROUP\x01P\x02TRAN_MSG\x01false\x02TRAN_MSG\x01true\x02"
    phys = place(client.send("Twice", b"half", properties=text))
    assert (client.max_offset("Twice", 0), client.max_offset(HALF_TOPIC, 0)) == (1, 1)
    assert end(client, Half("P", "B", 0, 0, phys, "", ""), COMMIT).code == 0
    assert client.max_offset("Twice", 0) == 2
