"""A SYNC_MASTER shows at its start what slaves had; what stands behind is there all the same."""

from __future__ import annotations

from pathlib import Path

from tests.support.client import QUERY_CONSUMER_OFFSET, UPDATE_CONSUMER_OFFSET, Client
from tests.support.operators import create_topic
from tests.support.server import ServerProcess

DELETE_TOPIC_IN_BROKER = 215
FLUSH_SLAVE_TIMEOUT, PULL_NOT_FOUND = 12, 19
SYNC = "brokerRole=SYNC_MASTER\ninSyncReplicas=2\nslaveTimeout=100\n"


def send(client: Client, topic: str, count: int) -> None:
    assert create_topic(client, topic, 1).code == 0
    for n in range(count):
        assert client.send(topic, b"%d" % n, queue_id=0).code == FLUSH_SLAVE_TIMEOUT


def test_groups_that_were_further_wait_at_their_place(tmp_path: Path) -> None:
    """After a kill the checkpoint may be older than what was shown: that brings no message
    again."""
    place = {"consumerGroup": "G", "topic": "T", "queueId": 0}
    with ServerProcess(tmp_path / "store", conf=SYNC) as server:
        with Client(server.broker) as client:
            send(client, "T", 3)
            assert client.call(UPDATE_CONSUMER_OFFSET, **place, commitOffset=2).code == 0
        server.terminate()
        server.start()
        with Client(server.broker) as client:
            assert client.max_offset("T", 0) == 0
            assert client.call(QUERY_CONSUMER_OFFSET, **place).ext["offset"] == "2"
            assert client.pull("T", 0, 2).code == PULL_NOT_FOUND
        assert "leads" not in server.stderr_text()


def test_what_was_deleted_stays_deleted(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "store", conf=SYNC) as server:
        with Client(server.broker) as client:
            send(client, "T", 3)
            assert client.call(DELETE_TOPIC_IN_BROKER, topic="T").code == 0
            assert create_topic(client, "T", 1).code == 0
        server.terminate()
        server.start()
        server.terminate()
        text = server.stderr_text()
    with ServerProcess(tmp_path / "store") as server, Client(server.broker) as client:
        assert (client.min_offset("T", 0), client.max_offset("T", 0)) == (3, 3)
        assert client.send("T", b"new", queue_id=0).code == 0
        assert [record.body for record in client.pull_all("T", 0, 3, 4)] == [b"new"]
    assert "end before what it hides" not in text
