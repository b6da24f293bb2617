"""mqadmin of Apache RocketMQ on our broker: groups that pop, timers, priorities.

All commands are run in one JVM, one after the other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyrmq.model.names import TIMER_TOPIC
from tests.support.client import Client
from tests.support.popping import PoppedMessage, ack, pop
from tests.support.server import ServerProcess
from tests.support.waiting import eventually

from .store import peer
from .store.tool import Tool

TOPIC, GROUP = "Popped", "CG_pop"
PRIORITY = "priority.factor"
newest = pytest.mark.skipif(peer.VERSION != "5.5.0", reason="RocketMQ 5.5 has it first")


class Admin:
    """A server where a group pops a topic, and mqadmin."""

    def __init__(self, server: ServerProcess, client: Client, tool: Tool) -> None:
        self.server = server
        self.client = client
        self.broker = "{}:{}".format(*server.broker)
        self._names = "{}:{}".format(*server.namesrv)
        self._tool = tool

    def run(self, *words: str) -> str:
        """What a command printed, of whatever kind."""
        out, err = self._tool.command(self._names, *words)
        return "\n".join(line for line in (out + err).splitlines() if " |-" not in line)

    def saved(self, file: str) -> dict[str, object]:
        path = self.server.store / "config" / file
        found: dict[str, object] = json.loads(path.read_text()) if path.exists() else {}
        return found


@pytest.fixture(scope="module")
def popped() -> list[PoppedMessage]:
    return []


@pytest.fixture(scope="module")
def admin(home: Path, popped: list[PoppedMessage]) -> Iterator[Admin]:
    with (
        ServerProcess(home / "pops") as server,
        Client(server.broker) as client,
        Tool(home / "tool") as tool,
    ):
        for n in range(10):
            assert client.send(TOPIC, b"%d" % n).code == 0
        for _ in range(3):
            timer = client.send(TOPIC, b"later", properties={"TIMER_DELAY_SEC": "3600"})
            assert timer.code == 0, timer.remark
        popped += pop(client, TOPIC, maxMsgNums=4)
        for message in popped[:2]:
            ack(client, message)
        client.heartbeat("pops@1", GROUP, TOPIC)
        admin = Admin(server, client, tool)
        eventually(lambda: TOPIC in admin.run("topicList"), "the name server knows the topic")
        yield admin


def test_how_far_a_group_is(admin: Admin) -> None:
    """What was popped counts as consumed, acknowledged or not, as in RocketMQ."""
    said = admin.run("consumerProgress", "-g", GROUP)
    (row,) = (
        line.split() for line in said.splitlines() if re.match(rf"{TOPIC}\s.*\s0\s+10\s", line)
    )
    assert row[:6] == [TOPIC, "broker-a", "0", "10", "4", "6"], said


def test_a_group_without_members(admin: Admin) -> None:
    said = admin.run("consumerProgress")
    assert any(line.split()[:1] == [GROUP] for line in said.splitlines()), said


def test_topics_of_timers_and_check_points(admin: Admin) -> None:
    said = admin.run("topicStatus", "-t", TIMER_TOPIC)
    rows = [line.split() for line in said.splitlines() if line.startswith("broker-a")]
    assert [row[1] for row in rows] == ["0"], said
    assert int(rows[0][3]) >= 5, "three timers, a check point, acknowledgements"
    assert "broker-a" in admin.run("topicStatus", "-t", "rmq_sys_REVIVE_LOG_DefaultCluster")


def test_the_runtime_information(admin: Admin) -> None:
    said = admin.run("brokerStatus", "-b", admin.broker)
    figures = dict(re.findall(r"^(\w+)\s*:\s*(.*?)\s*$", said, re.MULTILINE))
    assert int(figures["timerCongestNum"]) >= 3, said
    assert "popReviveBehindMessages" in figures, said


def test_who_pops_and_who_pulls(admin: Admin) -> None:
    for mode, queues in (("POP", "2"), ("PULL", "0")):
        said = admin.run(
            "setConsumeMode", "-b", admin.broker, "-t", TOPIC, "-g", GROUP, "-m", mode, "-q", queues
        )
        assert "success" in said, said
        eventually(
            lambda: json.dumps(admin.saved("messageRequestMode.json")),
            "the mode is kept",
            until=lambda text: f'"mode": "{mode}"' in text,  # noqa: B023 - called at once
        )
    said = admin.run("setConsumeMode", "-b", admin.broker, "-t", "No", "-g", GROUP, "-m", "POP")
    assert "CODE: 17" in said, said


def test_records_of_pops_in_rocksdb(admin: Admin) -> None:
    said = admin.run("exportPopRecord", "-b", admin.broker, "-d", "true")
    assert "records in RocksDB" in said, said


@newest
@pytest.mark.parametrize("engine", ["R", "F"])
def test_another_engine_of_timers(admin: Admin, engine: str) -> None:
    said = admin.run("switchTimerEngine", "-b", admin.broker, "-e", engine)
    assert "one engine" in said, said
    assert "success" not in said, said


@newest
def test_how_a_group_reads_priorities(admin: Admin) -> None:
    def update(changes: str) -> str:
        return admin.run(
            "updateSubGroup", "-b", admin.broker, "-g", "Ranked", f"--attributes={changes}"
        )

    assert "success" in update(f"+{PRIORITY}=30")
    assert PRIORITY in admin.run("getConsumerConfig", "-g", "Ranked")
    table = admin.saved("subscriptionGroup.json")["subscriptionGroupTable"]
    assert isinstance(table, dict)
    assert table["Ranked"]["attributes"] == {PRIORITY: "30"}
    assert "from 0 to 100" in update(f"+{PRIORITY}=200")
    assert "not supported" in update("+lite.sub.model=Shared")
    assert "success" in update(f"-{PRIORITY}")
    assert "nothing to remove" in update(f"-{PRIORITY}")
