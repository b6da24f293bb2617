"""mqadmin of Apache RocketMQ against our server: how far topics and groups are, moving offsets, the
configuration of a broker, and its statistics.

All commands are run in one JVM, one after the other: some move what the next ones show.
"""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from tests.support.client import QUERY_CONSUMER_OFFSET, UPDATE_CONSUMER_OFFSET, Client
from tests.support.server import ServerProcess
from tests.support.waiting import eventually

from .store.tool import Tool

TOPIC = "Counted"
GROUP = "G"
FOUND, MOVED = 0, 21
BUSY_TOPIC, BUSY_GROUP = "Busy", "BG"
SAMPLING = """\
from pyrmq.broker.stats import broker_stats as stats
from pyrmq.cli import main
stats.PERIOD = 0.25
main()
"""


class SamplingServer(ServerProcess):
    """Samples its statistics every quarter of a second: what RocketMQ calls a minute is 1.5 s."""

    def _command(self) -> list[str]:
        words = super()._command()
        return [sys.executable, "-c", SAMPLING, *words[words.index("server") :]]


class Admin:
    """A server with ten messages in two queues and a member of the group; `run` is mqadmin."""

    def __init__(self, server: ServerProcess, client: Client, tool: Tool) -> None:
        self.client = client
        self.broker = server.broker
        self.names = "{}:{}".format(*server.namesrv)
        self.tool = tool

    def run(self, *words: str) -> list[list[str]]:
        """What a command printed, in words, without headings."""
        out, err = self.tool.command(self.names, *words)
        assert "Exception" not in out + err, out + err
        lines = [line for line in out.splitlines() if " |-" not in line]
        return [line.split() for line in lines if line.strip() and not line.startswith("#")]

    def offset(self, queue_id: int, group: str = GROUP) -> int:
        answer = self.client.call(
            QUERY_CONSUMER_OFFSET, consumerGroup=group, topic=TOPIC, queueId=queue_id
        )
        return int(answer.ext["offset"])


@pytest.fixture(scope="module")
def admin(home: Path) -> Iterator[Admin]:
    with (
        SamplingServer(home / "counted") as server,
        Client(server.broker) as client,
        Tool(home / "tool") as tool,
    ):
        for n in range(10):
            assert client.send(TOPIC, b"%d" % n, queue_id=n % 2, queues=2).code == 0
        assert client.heartbeat("client-1", GROUP, TOPIC).code == 0
        commit = client.call(
            UPDATE_CONSUMER_OFFSET, consumerGroup=GROUP, topic=TOPIC, queueId=0, commitOffset=3
        )
        assert commit.code == 0
        admin = Admin(server, client, tool)
        eventually(lambda: topic_is_known(admin), "the name server knows topic and retry topic")
        yield admin


def topic_is_known(admin: Admin) -> bool:
    try:
        return bool(admin.run("topicStatus", "-t", TOPIC)) and bool(
            admin.run("topicStatus", "-t", f"%RETRY%{GROUP}")
        )
    except AssertionError:
        return False


def test_groups(admin: Admin) -> None:
    cluster = ["-c", "DefaultCluster"]
    admin.run("updateSubGroup", *cluster, "-g", "Tuned", "-r", "5", "-q", "2")
    text = " ".join(" ".join(row) for row in admin.run("getConsumerConfig", "-g", "Tuned"))
    assert "retryMaxTimes = 5" in text
    assert "retryQueueNums = 2" in text


def test_topic_status(admin: Admin) -> None:
    rows = admin.run("topicStatus", "-t", TOPIC)
    assert [row[1:4] for row in rows[:2]] == [["0", "0", "5"], ["1", "0", "5"]]


def progress(admin: Admin, group: str = GROUP) -> dict[str, tuple[int, int, int]]:
    """Broker offset, consumer offset and difference by queue."""
    rows = admin.run("consumerProgress", "-g", group)
    mine = [row for row in rows if row[0] == TOPIC]
    return {row[2]: (int(row[3]), int(row[4]), int(row[5])) for row in mine}


def test_offsets_are_shown_moved_and_cloned(admin: Admin) -> None:
    assert progress(admin) == {"0": (5, 3, 2), "1": (5, 0, 5)}
    connections = admin.run("consumerConnection", "-g", GROUP)
    assert connections[0][0] == "client-1"
    assert [TOPIC, "*"] in connections

    admin.run("resetOffsetByTime", "-g", GROUP, "-t", TOPIC, "-s", "-1")
    assert progress(admin) == {"0": (5, 5, 0), "1": (5, 5, 0)}
    admin.run("resetOffsetByTime", "-g", GROUP, "-t", TOPIC, "-s", "0")
    assert [admin.offset(0), admin.offset(1)] == [0, 0]
    # The next pull is sent there, whatever it asks for; the one after it is served.
    moved = admin.client.pull(TOPIC, 0, 5, group=GROUP)
    assert (moved.code, moved.next_offset) == (MOVED, 0)
    served = admin.client.pull(TOPIC, 0, 0, group=GROUP)
    assert (served.code, [r.body for r in served.records]) == (
        FOUND,
        [b"0", b"2", b"4", b"6", b"8"],
    )

    admin.run("skipAccumulatedMessage", "-g", GROUP, "-t", TOPIC)
    assert [admin.offset(0), admin.offset(1)] == [5, 5]
    admin.run("cloneGroupOffset", "-s", GROUP, "-d", "G2", "-t", TOPIC)
    assert [admin.offset(0, "G2"), admin.offset(1, "G2")] == [5, 5]


def configuration(admin: Admin, *target: str) -> dict[str, str]:
    rows = admin.run("getBrokerConfig", *target)
    return {row[0]: " ".join(row[2:]) for row in rows if len(row) > 1 and row[1] == "="}


def test_configuration(admin: Admin, tmp_path: Path) -> None:
    broker = ["-b", "{}:{}".format(*admin.broker)]
    cluster = ["-c", "DefaultCluster"]
    shown = configuration(admin, *broker)
    assert shown == configuration(admin, *cluster)
    assert shown["messageDelayLevel"].startswith("1s 5s 10s 30s 1m 2m")
    assert (shown["listenPort"], shown["brokerRole"]) == (str(admin.broker[1]), "ASYNC_MASTER")
    out = admin.run("updateBrokerConfig", *cluster, "-k", "transactionCheckMax", "-v", "9")
    assert "success" in " ".join(out[0])
    assert configuration(admin, *broker) == {**shown, "transactionCheckMax": "9"}
    for key, value, word in (
        ("brokerPermission", "4", "success"),
        ("brokerName", "b", "CODE: 16  DESC: nothing was changed: brokerName cannot be updated"),
        ("noSuchKey", "1", "CODE: 29  DESC: nothing was changed: unknown configuration key"),
        ("brokerPermission", "6", "success"),
    ):
        words = ("updateBrokerConfig", *broker, "-k", key, "-v", value)
        assert word in "".join(admin.tool.command(admin.names, *words))
    admin.run("exportConfigs", *cluster, "-f", str(tmp_path))
    exported = json.loads((tmp_path / "configs.json").read_text())
    assert exported["brokerConfigs"]["broker-a"]["brokerRole"] == "ASYNC_MASTER"


@contextmanager
def busy(admin: Admin) -> Iterator[None]:
    """Messages of a topic are sent and pulled all the time."""
    stop = threading.Event()

    def work() -> None:
        with Client(admin.broker) as client:
            for offset in count():
                assert client.send(BUSY_TOPIC, b"x" * 100, queues=1).code == 0
                assert client.pull(BUSY_TOPIC, 0, offset, group=BUSY_GROUP).code == 0
                if stop.wait(0.005):
                    return

    worker = threading.Thread(target=work)
    worker.start()
    try:
        yield
    finally:
        stop.set()
        worker.join()


def cells(admin: Admin, *words: str) -> list[str]:
    """The first row of a command's table."""
    return admin.run(*words)[0]


def test_statistics(admin: Admin) -> None:
    commit = {"consumerGroup": BUSY_GROUP, "topic": BUSY_TOPIC, "queueId": 0, "commitOffset": 1}
    assert admin.client.heartbeat("client-2", BUSY_GROUP, BUSY_TOPIC).code == 0
    with busy(admin):
        eventually(lambda: admin.client.call(UPDATE_CONSUMER_OFFSET, **commit).code == 0, "a topic")
        # Topic, group, accumulation, in and out a second, in and out a day.
        row = eventually(
            lambda: cells(admin, "statsAll", "-t", BUSY_TOPIC),
            "there are rates",
            until=lambda row: len(row) == 7 and all(float(n) > 0 for n in row[2:]),
        )
        assert row[:2] == [BUSY_TOPIC, BUSY_GROUP]
        assert all(1 < float(tps) < 300 for tps in row[3:5]), row
        shown = " ".join(cells(admin, "clusterList"))
        rates = re.search(
            r"V5_3_3 ([\d.]+)\(0,0ms\) ([\d.]+)\(0,0ms\|N,Nms\) .* 0 0\.\d\d 0\.\d{4} true$",
            shown,
        )
        assert rates is not None, shown
        assert all(1 < float(tps) < 300 for tps in rates.groups()), shown
        today = cells(admin, "clusterList", "-m")[2:]
        assert today[:2] == ["0", "0"], "of yesterday"
        assert min(int(n) for n in today[2:]) > 10
        broker = ["-b", "{}:{}".format(*admin.broker)]
        status = {row[0]: row[2:] for row in admin.run("brokerStatus", *broker)}
        for name in ("putTps", "getFoundTps", "getTransferredTps"):
            assert 1 < float(status[name][0]) < 300, status[name]
        assert len(status["earliestMessageTimeStamp"]) == 1
        progress = admin.run("consumerProgress", "-g", BUSY_GROUP)
        tps = next(row[2] for row in progress if row[:2] == ["Consume", "TPS:"])
        assert 1 < float(tps) < 300
        rows = admin.run("brokerConsumeStats", *broker)
        assert [BUSY_TOPIC, BUSY_GROUP] in [row[:2] for row in rows]
        assert rows[-1][:2] == ["Diff", "Total:"]
        assert int(rows[-1][2]) > 0
