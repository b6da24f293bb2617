"""mqadmin of Apache RocketMQ on groups of our consumers: who they are, how they run, how far they
are. All commands are run in one JVM, one after the other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.waiting import eventually

from .clusters import Cluster, cluster
from .mixed import Group, Sender
from .store.tool import Tool
from .test_mixed_groups import drivers

TOPIC, GROUP = "Watched", "watched"
QUEUES = 4
NAMES = ("pyrmq-1", "pyrmq-2")
thorough = pytest.mark.thorough("the same commands on other brokers and consumers")


@dataclass
class Admin:
    """A group with two members, which has consumed; `run` is mqadmin."""

    cluster: Cluster
    tool: Tool
    command: str
    """What kind of group it is."""
    clients: dict[str, str]
    """Client ids by member."""
    count: int
    """Messages that were sent."""

    def run(self, *words: str) -> str:
        out, err = self.tool.command(self.cluster.namesrv, *words)
        said = "\n".join(line for line in (out + err).splitlines() if " |-" not in line)
        assert "Exception" not in said, said
        return said


@pytest.fixture(
    scope="module",
    params=[
        ("pyrmq", "consume"),
        pytest.param(("pyrmq", "consume-orderly"), marks=thorough),
        pytest.param(("apache", "consume"), marks=thorough),
        pytest.param(("apache", "consume-orderly"), marks=thorough),
    ],
    ids="-".join,
)
def admin(request: pytest.FixtureRequest, home: Path) -> Iterator[Admin]:
    kind, command = request.param
    folder = home / f"{kind}-{command}"
    with ExitStack() as stack:
        running = stack.enter_context(cluster(kind, folder, 1))
        tool = stack.enter_context(Tool(folder / "tool"))
        running.make_topic(TOPIC, QUEUES)
        running.know_group(GROUP, TOPIC)
        python = drivers(running, "pyrmq")
        members = stack.enter_context(Group(running, python, TOPIC, GROUP, command))
        for name in NAMES:
            members.join(name)
        members.settle()
        with Sender(running, TOPIC) as sender:
            members.await_all(sender.round())
            count = sender.sent
        clients = {full.split("@")[1]: full for full in running.owners(GROUP, TOPIC)}
        yield Admin(running, tool, command, clients, count)


def test_who_they_are(admin: Admin) -> None:
    said = admin.run("consumerConnection", "-g", GROUP)
    rows = [line.split() for line in said.splitlines() if "@pyrmq-" in line]
    found = sorted((row[0], *row[2:]) for row in rows)
    assert found == [(admin.clients[name], "PYTHON", "V5_3_3") for name in NAMES], said
    for topic in (TOPIC, f"%RETRY%{GROUP}"):
        assert [topic, "*"] in [line.split() for line in said.splitlines()], said
    for word in ("CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_FIRST_OFFSET"):
        assert word in said


def test_how_one_runs(admin: Admin) -> None:
    said = admin.run("consumerStatus", "-g", GROUP, "-i", admin.clients["pyrmq-1"], "-s")
    assert "PROP_CONSUME_TYPE" in said, said
    orderly = str(admin.command == "consume-orderly").lower()
    assert re.search(rf"PROP_CONSUMEORDERLY\s+: {orderly}", said), said
    held = [line for line in said.splitlines() if re.match(rf"{TOPIC}\s+broker-a\s", line)]
    assert len(held) >= QUEUES // 2, said
    assert "thread " in said, "its stacks"


def test_how_all_run(admin: Admin) -> None:
    """It compares their subscriptions and writes what each said into a file."""
    said = admin.run("consumerStatus", "-g", GROUP)
    for client in admin.clients.values():
        assert client in said
    assert "Same subscription in the same group of consumer" in said, said


def progress(admin: Admin, *more: str) -> list[list[str]]:
    said = admin.run("consumerProgress", "-g", GROUP, *more)
    return [line.split() for line in said.splitlines() if line.startswith(TOPIC)]


def test_who_has_which_queue(admin: Admin) -> None:
    """It asks each member how it runs."""
    rows = progress(admin, "-s", "true")
    ips = {client.split("@")[0] for client in admin.clients.values()}
    assert [row[5] for row in rows] == [*ips] * QUEUES, rows


def test_how_far_they_are(admin: Admin) -> None:
    """Offsets are written every five seconds."""
    rows = eventually(
        lambda: progress(admin),
        "all is consumed",
        until=lambda rows: [row[5] for row in rows] == ["0"] * QUEUES,
    )
    assert sum(int(row[3]) for row in rows) == admin.count
    assert [row[:3] for row in rows] == [[TOPIC, "broker-a", str(n)] for n in range(QUEUES)]
