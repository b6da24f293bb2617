"""`cluster health` of a master and a slave as processes, and what tools say when one is gone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyrmq import sync
from pyrmq.admin.health import DEGRADED, DOWN, OK, Health
from pyrmq.errors import BrokerMissingError
from pyrmq.model.topic import TopicConfig
from tests.system.ha.processes import Pair, eventually


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with Pair(tmp_path) as pair:
        yield pair


def states(found: Health) -> dict[str, str]:
    return {s.role: s.state for s in found.servers if s.role != "name server"}


def test_a_pair_that_loses_its_slave_and_then_its_master(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    # How full the disk of this machine is says nothing of the pair.
    monkeypatch.setattr("pyrmq.admin.health.DISK_HIGH", 101.0)
    pair.wait_in_sync()
    with sync.Admin(pair.namesrv) as admin:
        found = admin.clusters.health()
        assert (found.state, found.problems) == (OK, [])
        assert states(found) == {"master": OK, "slave": OK}
        assert [s.behind for s in found.servers if s.role != "name server"] == [0, 0]
        cluster = found.servers[-1].cluster
        pair.slave.stop()
        eventually(lambda: admin.clusters.health().state == DEGRADED)
        found = admin.clusters.health(cluster)
        assert states(found) == {"master": OK, "slave": DOWN}
        assert "missing: no name server knows it now" in found.problems[0]
        pair.slave.start()
        pair.wait_in_sync()
        eventually(lambda: admin.clusters.health().state == OK)
        pair.master.stop()
        eventually(lambda: states(admin.clusters.health()).get("master") == DOWN)
        found = admin.clusters.health()
        assert found.state == DOWN  # nobody takes messages
        # A topic is not made on half a cluster without a word.
        outcomes = admin.topics.update(TopicConfig("New", 1, 1), cluster=cluster)
        assert [type(o.error) for o in outcomes] == [BrokerMissingError]
