"""The checks of /healthz and /readyz: each names what is wrong and what to do."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyrmq.broker import BrokerConfig
from pyrmq.broker.health import DEAD, STUCK, BrokerHealth
from pyrmq.config.table import LiveConfig
from pyrmq.namesrv.health import NamesrvHealth
from pyrmq.net.health import Health, Progress


class Broker:
    """A healthy broker, whose parts a test changes."""

    def __init__(self, **keys: Any) -> None:
        self.now = 1000.0
        self.store = SimpleNamespace(
            failure=lambda: None,
            refusal=lambda: None,
            stats=lambda: {"maxPhyOffset": self.end},
            flushed=lambda: self.flushed,
            confirmed=lambda: self.confirmed,
        )
        self.end = self.flushed = self.confirmed = 100
        self.registration = SimpleNamespace(left=False, unregistered=[], name_servers=2)
        self.replicas: list[dict[str, object]] = []
        self.replicating = SimpleNamespace(
            has_master=lambda: self.has_master,
            replication=SimpleNamespace(why="the master does not answer"),
            server=SimpleNamespace(master=SimpleNamespace(replicas=lambda: self.replicas)),
        )
        self.has_master = True
        self.leaving = ""
        config = BrokerConfig(store_path_root_dir=Path("/nowhere"), **keys)
        self.health = BrokerHealth(
            LiveConfig(config),
            self.store,  # type: ignore[arg-type]
            self.registration,  # type: ignore[arg-type]
            self.replicating,  # type: ignore[arg-type]
            lambda: self.leaving,
            lambda: self.now,
        )

    def ready(self) -> list[str]:
        return [f"{p.check}: {p.what}" for p in self.health.ready()]

    def live(self) -> list[str]:
        return [f"{p.check}: {p.what}" for p in self.health.live()]


def test_a_healthy_one() -> None:
    broker = Broker()
    assert broker.live() == broker.ready() == []
    good, body = broker.health.report(ready=True)
    report = json.loads(body)
    assert good
    assert report["status"] == "ok"
    names = [check["name"] for check in report["checks"]]
    expected = ["loop", "flusher", "confirmed", "store", "registered", "role", "draining"]
    assert names == expected
    assert all(check == {"name": check["name"], "ok": True} for check in report["checks"])
    assert [c["name"] for c in json.loads(broker.health.report(ready=False)[1])["checks"]] == [
        "loop",
        "flusher",
    ]


def test_a_failed_flush_needs_a_restart() -> None:
    broker = Broker()
    broker.store.failure = lambda: "fdatasync: I/O error"
    assert broker.live() == ["flusher: nothing is confirmed any more: fdatasync: I/O error"]
    assert broker.ready() == broker.live()


def test_a_flusher_that_stands_still() -> None:
    broker = Broker()
    assert broker.ready() == []
    broker.end = broker.confirmed = 200
    assert broker.ready() == []
    broker.now += STUCK
    assert broker.ready() == [f"confirmed: the log was not flushed for {STUCK:.0f} s"]
    assert broker.live() == [], "it may come back"
    broker.now += DEAD
    assert broker.live() == [f"flusher: the log was not flushed for {STUCK + DEAD:.0f} s"]
    broker.flushed = 150
    assert broker.ready() == [], "it moves again"


def test_slaves_that_confirm_nothing() -> None:
    broker = Broker(broker_role="SYNC_MASTER", in_sync_replicas=2)
    broker.replicas = [{"inSync": True}]
    assert broker.ready() == []
    broker.end = broker.flushed = 200
    assert broker.ready() == []
    broker.now += STUCK
    assert broker.ready() == [f"confirmed: no message was confirmed for {STUCK:.0f} s"]
    assert "haStatus" in broker.health.ready()[0].advice


def test_a_full_disk() -> None:
    broker = Broker()
    broker.store.refusal = lambda: "the disk is full"
    assert broker.ready() == ["store: messages are refused: the disk is full"]
    assert broker.live() == [], "a restart makes no room"


def test_name_servers() -> None:
    broker = Broker()
    broker.registration.unregistered = ["10.0.0.1:9876"]
    assert broker.ready() == [], "one of two knows it"
    broker.registration.unregistered.append("10.0.0.2:9876")
    (problem,) = broker.health.ready()
    assert problem.check == "registered"
    assert "10.0.0.1:9876, 10.0.0.2:9876" in problem.what
    broker.registration.left = True
    assert "another broker has become the master" in broker.health.ready()[0].what


def test_a_slave_without_a_master() -> None:
    broker = Broker(broker_role="SLAVE", broker_id=1)
    assert broker.ready() == []
    broker.has_master = False
    assert broker.ready() == ["role: this slave follows no master: the master does not answer"]


@pytest.mark.parametrize("auto", [False, True])
def test_a_master_without_slaves(auto: bool) -> None:
    broker = Broker(
        broker_role="SYNC_MASTER",
        in_sync_replicas=3,
        min_in_sync_replicas=2,
        enable_auto_in_sync_replicas=auto,
    )
    broker.replicas = [{"inSync": True}, {"inSync": False}]
    assert broker.ready() == (
        [] if auto else ["role: 2 of 3 replicas are in sync, this one included"]
    )
    broker.replicas[0]["inSync"] = False
    needed = 2 if auto else 3
    assert broker.ready() == [f"role: 1 of {needed} replicas are in sync, this one included"]


def test_a_drained_one() -> None:
    broker = Broker()
    broker.leaving = "the broker stops"
    assert broker.ready() == ["draining: the broker stops"]
    good, body = broker.health.report(ready=True)
    assert not good
    (row,) = [c for c in json.loads(body)["checks"] if not c["ok"]]
    assert row["what"] == "the broker stops"
    assert "bring-back" in row["advice"]


def test_what_others_wrote_is_escaped() -> None:
    health = Health("broker \x1b[2J", {}, {"role": lambda: ("\x1b[2J", "\nno")})
    _, body = health.report(ready=True)
    report = json.loads(body)
    assert report["server"] == r"broker \x1b[2J"
    assert report["checks"][0] == {
        "name": "role",
        "ok": False,
        "what": r"\x1b[2J",
        "advice": r"\nno",
    }


def test_a_name_server() -> None:
    left = [0.0]
    health = NamesrvHealth("name server", lambda: left[0])
    assert health.ready() == []
    left[0] = 12.0
    assert [p.what for p in health.ready()] == [
        "routes are refused for another 12 s, until brokers had time to register"
    ]
    assert health.live() == []


def test_progress() -> None:
    now = [0.0]
    progress = Progress(lambda: now[0])

    def stuck(at: int, wanted: int, after: float) -> float:
        now[0] += after
        return progress.seconds_stuck(at, wanted)

    assert stuck(0, 0, 0) == 0
    assert stuck(0, 10, 100) == 0, "nothing was wanted until now"
    assert stuck(0, 20, 5) == 5
    assert stuck(0, 30, 5) == 10
    assert stuck(1, 30, 5) == 0
    assert stuck(1, 30, 7) == 7
    assert stuck(30, 30, 1) == 0
