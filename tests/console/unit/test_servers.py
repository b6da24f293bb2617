"""What the rooms of servers make of health, figures and replication."""

from __future__ import annotations

from typing import Any

import pytest

from pyrmq.admin.clusters import ReplicaState
from pyrmq.admin.controllers import ControllerMetadata
from pyrmq.admin.health import DOWN, OK, Health, ServerHealth
from pyrmq.admin.link import Replica
from pyrmq.admin.outcome import Outcome
from pyrmq.admin.runtime_info import HaStatus, Slave
from pyrmq.console.figures import grouped
from pyrmq.console.pages import ha
from pyrmq.console.pages.cluster import lag_of
from pyrmq.console.views.servers import Broker, NotThereError, Servers, joined
from pyrmq.errors import (
    ConnectError,
    NoPermissionError,
    RequestCodeNotSupportedError,
)

RUNTIME = {"putTps": "5.0 4 3", "getTransferredTps": "6", "brokerVersionDesc": "V5_3_3",
           "refusesMessages": ""}  # fmt: skip


def server(name: str, number: int = 0, state: str = OK, **more: Any) -> ServerHealth:
    role = "slave" if number else "master"
    problems = more.pop("problems", [])
    address = f"{name}-{number}:1"
    return ServerHealth(role, address, "C", name, number, state, problems=problems, **more)


def broker(name: str, number: int = 0, state: str = OK, **more: Any) -> Broker:
    return Broker(server(name, number, state, **more), RUNTIME if state != DOWN else {})


def test_a_lag_that_not_all_masters_tell_is_not_that_of_all_groups() -> None:
    assert lag_of(2, 2) == "of all groups"
    assert lag_of(1, 3) == "at 1 of 3 masters"


def test_health_and_figures_of_the_same_broker_are_one() -> None:
    states = [
        ReplicaState(Replica("C", "a", 0, "a-0:1"), RUNTIME),
        ReplicaState(Replica("C", "b", 0, "b-0:1", "old:1"), {}, ConnectError("no")),
        ReplicaState(Replica("C", "c", 0, "c-0:1"), {}, NoPermissionError("no")),
    ]
    rows = [ServerHealth("name server", "n:1"), server("a"), server("b", state=DOWN), server("c")]
    found = joined(Health("degraded", rows), states)
    a, b, c = found.brokers
    assert (a.messages_in, a.messages_out, a.version, a.product) == (5.0, 6.0, "5.3.3", "pyrmq")
    assert (b.is_up, b.messages_in, b.was, b.product) == (False, None, "old:1", "")
    assert c.is_denied
    assert not found.may_look
    assert [s.address for s in found.name_servers] == ["n:1"]
    assert found.up == 1
    assert found.of("b", 0) is b
    with pytest.raises(NotThereError, match="no broker x with id 0"):
        found.of("x", 0)


def test_what_a_master_says_of_its_only_slave_counts() -> None:
    def behind(*rows: ServerHealth) -> list[int | None]:
        return [b.health.behind for b in joined(Health("ok", list(rows)), []).brokers]

    one, two = server("a", behind=700), server("b", behind=500)
    assert behind(one, server("a", 1, behind=5)) == [700, 700]
    assert behind(one, server("a", 1)) == [700, None], "it does not follow"
    assert behind(two, server("b", 1, behind=5), server("b", 2, behind=6)) == [500, 5, 6]


def test_the_worst_is_first() -> None:
    found = Servers(
        "degraded",
        [ServerHealth("name server", "n:1", state="degraded", problems=["lacks topics"])],
        [broker("a", problems=["the disk is 81 % full"], state="degraded"),
         broker("b", state=DOWN, problems=["no answer"])],
    )  # fmt: skip
    assert [p.text for p in found.problems] == [
        "no answer",
        "lacks topics",
        "the disk is 81 % full",
    ]
    assert found.fullest is None


def test_a_figure_is_in_the_group_of_the_longest_beginning() -> None:
    runtime = {
        "putTps": "1 2 3", "commitLogMaxOffset": "4096", "bootTimestamp": "1700000000000",
        "scheduleMessageOffset_10": "1,2", "scheduleMessageOffset_9": "3,4",
        "transactionHalfCount": "0", "somethingNew": "x", "timerReadBehind": "0",
    }  # fmt: skip
    found = grouped(runtime)
    assert list(found) == [
        "State", "Messages in and out", "Log and disk", "Transactions", "Timers", "Delay levels",
        "Others",
    ]  # fmt: skip
    assert [f.name for f in found["Delay levels"]] == [
        "scheduleMessageOffset_9", "scheduleMessageOffset_10",
    ]  # fmt: skip
    assert found["Log and disk"][0].readable == "4.0 KiB"
    assert found["State"][0].readable.startswith("2023-11-1")
    assert found["Others"][0].readable == ""


def status(*slaves: Slave, master: bool = True, **more: Any) -> HaStatus:
    base: dict[str, Any] = {
        "master": master, "max_offset": 1000, "in_sync_slaves": 0, "slaves": list(slaves),
        "master_address": "" if master else "m:1", "bytes_per_second": 0, "last_read": 0,
        "last_write": 0, "master_flush_offset": 0 if master else 1000,
    }  # fmt: skip
    return HaStatus(**(base | more))


def slave(diff: int = 0, *, in_sync: bool = True) -> Slave:
    return Slave("10.0.0.9:5", 1000 - diff, diff, in_sync, 0, 0)


def pairs(
    brokers: list[Broker], said: dict[str, HaStatus | Exception]
) -> list[tuple[str, str, str]]:
    outcomes: dict[str, Outcome[HaStatus]] = {}
    for address, value in said.items():
        error: Any = value if isinstance(value, Exception) else None
        outcomes[address] = Outcome(address, None if error else value, error)  # type: ignore[arg-type]
    return [(p.name, *p.word) for p in ha.joined(brokers, outcomes)]


def test_how_a_name_stands() -> None:
    alone = [broker("a")]
    assert pairs(alone, {"a-0:1": status()}) == [("a", "no slave", "")]
    two = [broker("a"), broker("a", 1)]
    follows = status(master=False, state="FOLLOWING")
    assert pairs(two, {"a-0:1": status(slave()), "a-1:1": follows}) == [("a", "in sync", "good")]
    late = {"a-0:1": status(slave(500, in_sync=False)), "a-1:1": follows}
    assert pairs(two, late) == [("a", "0 of 1 in sync", "warn")]
    lost = {"a-0:1": status(), "a-1:1": follows}
    assert pairs(two, lost) == [("a", "0 of 1 slaves connected", "bad")]
    misfit = status(master=False, state="MISFIT", why="the logs differ")
    assert pairs(two, {"a-0:1": status(slave()), "a-1:1": misfit}) == [
        ("a", "a slave does not follow", "bad")
    ]
    dead = [broker("a", state=DOWN), broker("a", 1)]
    assert pairs(dead, {"a-0:1": ConnectError("no"), "a-1:1": follows}) == [
        ("a", "no master", "bad")
    ]


def test_what_is_wrong_comes_first() -> None:
    brokers = [broker("a"), broker("z", 1)]
    found = pairs(brokers, {"a-0:1": status(), "z-1:1": status(master=False, master_address="")})
    assert [name for name, _, _ in found] == ["z", "a"]


def test_a_version_that_does_not_say_is_no_error() -> None:
    (pair,) = ha.joined(
        [broker("a")], {"a-0:1": Outcome("a-0:1", error=RequestCodeNotSupportedError("3"))}
    )
    assert pair.replicas[0].state == ("unknown", "")
    assert "its version does not say" in pair.replicas[0].problem


def test_how_far_a_slave_is_behind() -> None:
    row = ha.Replica(broker("a", 1), status(master=False, max_offset=400, state="FOLLOWING"))
    assert row.behind == 600
    assert ha.Replica(broker("a"), status()).behind is None
    far = status(master=False, max_offset=0, master_flush_offset=1 << 30, state="FOLLOWING")
    assert ha.Replica(broker("a", 1), far).state == ("behind", "warn")


def test_a_slave_does_not_know_what_its_master_has_not_sent() -> None:
    follows = status(master=False, max_offset=999, state="FOLLOWING")
    said = {"a-0:1": status(slave(500)), "a-1:1": follows, "a-2:1": follows}
    outcomes = {address: Outcome(address, value) for address, value in said.items()}
    (pair,) = ha.joined([broker("a"), broker("a", 1)], outcomes)
    assert [r.behind for r in pair.replicas] == [None, 500]
    (pair,) = ha.joined([broker("a"), broker("a", 1), broker("a", 2)], outcomes)
    assert [r.behind for r in pair.replicas] == [None, 1, 1], "whose connection is it?"
    lost = status(master=False, max_offset=300, master_flush_offset=300, state="MISFIT", why="x")
    outcomes = {"a-0:1": Outcome("a-0:1", status()), "a-1:1": Outcome("a-1:1", lost)}
    (pair,) = ha.joined([broker("a"), broker("a", 1)], outcomes)
    assert [r.behind for r in pair.replicas] == [None, 700]


class Controlled:
    """An Admin whose brokers name controllers."""

    def __init__(self, config: dict[str, str]) -> None:
        self.config = config
        self.brokers = self.controllers = self

    async def config_of(self, address: str) -> dict[str, str]:
        return self.config

    async def metadata(self, address: str) -> ControllerMetadata:
        if address.startswith("dead"):
            raise ConnectError(f"{address}: no connection")
        return ControllerMetadata("g", "n0", "one:1", address == "one:1", ["n0-one:1"])

    async def sync_states(self, address: str, *, cluster: str) -> list[str]:
        assert (address, cluster) == ("one:1", "C")
        return ["state"]


def apache(name: str) -> Broker:
    return Broker(server(name), {"putTps": "1"})


async def test_controllers_are_those_that_apaches_brokers_name() -> None:
    admin: Any = Controlled({"enableControllerMode": "true", "controllerAddr": "one:1; dead:2"})
    found = await ha.controllers(admin, Servers("ok", [], [apache("a")]))
    assert [(c.address, bool(c.metadata), list(c.states)) for c in found] == [
        ("one:1", True, ["state"]), ("dead:2", False, []),
    ]  # fmt: skip
    assert "no connection" in found[1].problem
    assert await ha.controllers(admin, Servers("ok", [], [broker("a")])) == [], "pyrmq has none"
    off: Any = Controlled({"controllerAddr": "one:1"})
    assert await ha.controllers(off, Servers("ok", [], [apache("a")])) == []
