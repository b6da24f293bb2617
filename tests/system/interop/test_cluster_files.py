"""A cluster as a file, with Apache RocketMQ's broker: described, compared, changed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from pyrmq.admin.api import Admin
from pyrmq.admin.desired import parse

from .apache import Apache, Served
from .store import peer

HEAD = "format: pyrmq-cluster/1\ncluster: DefaultCluster\n"
WANTED = """
config: {fileReservedTime: 41, maxMessageSize: 4194305}
topics:
  orders: {readQueueNums: 4, writeQueueNums: 4, attributes: {message.type: FIFO}}
  plain: {perm: 4}
groups:
  billing: {retryMaxTimes: 3, consumeMessageOrderly: true}
  other: {}
"""
LATER = """
config: {fileReservedTime: 72}
topics:
  orders: {readQueueNums: 5, writeQueueNums: 4}
groups:
  billing: {retryMaxTimes: 5}
"""


@pytest.fixture(scope="module")
def names(home: Path) -> Iterator[peer.NameServer]:
    with peer.NameServer(home / "namesrv") as server:
        yield server


@pytest.fixture
async def apache(names: peer.NameServer, tmp_path: Path) -> AsyncIterator[Served]:
    # Without timer messages it deletes no topic.
    async with Apache(names, tmp_path).serve(timer_wheel_enable=True) as served:
        yield served


async def test_a_cluster_of_apache(apache: Served) -> None:
    async with Admin(apache.namesrv) as admin:
        described = await admin.clusters.describe("DefaultCluster")
        assert (await admin.clusters.plan(described, prune=True)).equal
        for text in (WANTED, LATER):
            wanted = parse((HEAD + text).encode())
            plan = await admin.clusters.plan(wanted, prune=True)
            assert plan.changes
            done = await admin.clusters.apply(plan)
            assert [(d.step.name, str(d.error)) for d in done if d.error] == []
            assert (await admin.clusters.plan(wanted, prune=True)).equal
        found = parse((await admin.clusters.describe("DefaultCluster")).to_text().encode())
        assert found.topics is not None
        assert found.groups is not None
        assert set(found.topics) == {"orders"}
        assert set(found.groups) == {"billing"}
        assert found.topics["orders"].members["attributes"] == {"message.type": "FIFO"}
        assert found.topics["orders"].members["readQueueNums"] == 5
        group = found.groups["billing"].members
        assert (group["retryMaxTimes"], group["consumeMessageOrderly"]) == (5, True)
        assert (await admin.clusters.plan(found, prune=True)).equal
