"""When the console samples, what it asks, and what it keeps. On a clock that jumps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pyrmq.admin.link import Replica
from pyrmq.admin.outcome import Outcome, Outcomes
from pyrmq.admin.usage import NotKeptError, OwnHistory, Point
from pyrmq.console import history as module
from pyrmq.console.history import GROUP_PAUSE, MAX_BROKERS, MAX_GROUPS, PAUSE, PERIOD, History
from pyrmq.console.samples import STEP_MS
from pyrmq.errors import ClientError, ConnectError, NoPermissionError, PyrmqError

START = 1_700_000_000_000
GONE = "broker-gone"


@dataclass
class Cluster:
    """An Admin of brokers in memory. apache: addresses that keep no history. broken, denied: those
    that fail."""

    replicas: list[Replica]
    apache: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)
    denied: set[str] = field(default_factory=set)
    closed: bool = False
    asked: list[tuple[str, str]] = field(default_factory=list)
    lags: dict[str, int] = field(default_factory=dict)
    keeps: int = 3600
    """Seconds that brokers keep of their history."""

    def now(self) -> int:
        return START + round(trio.current_time() * 1000)

    @property
    def link(self) -> Any:
        return SimpleNamespace(missed={GONE: None}, replicas=self._replicas, on_each=self._on_each)

    @property
    def usage(self) -> Any:
        return SimpleNamespace(history_of=self._history)

    @property
    def brokers(self) -> Any:
        return SimpleNamespace(runtime_of=self._runtime)

    @property
    def groups(self) -> Any:
        return SimpleNamespace(consume_stats=self._consume_stats)

    async def _replicas(self, default_all: bool = False) -> list[Replica]:
        if self.closed:
            raise ClientError("closed")
        return self.replicas

    async def _on_each(
        self, replicas: list[Replica], work: Callable[[str], Awaitable[None]]
    ) -> Outcomes[None]:
        found: list[Outcome[None]] = []
        for replica in replicas:
            try:
                await work(replica.address)
                found.append(Outcome(replica.address))
            except PyrmqError as e:
                found.append(Outcome(replica.address, error=e))
        return Outcomes(found)

    async def _history(self, address: str, *, seconds: int) -> OwnHistory:
        self.asked.append(("history", address))
        if address in self.broken:
            raise ConnectError(f"{address}: no connection")
        if address in self.denied:
            raise NoPermissionError(address)
        if address in self.apache:
            raise NotKeptError(address)
        now = self.now()
        begin = now - min(seconds, self.keeps) * 1000 + STEP_MS
        ends = range(begin, now + 1, STEP_MS)
        return OwnHistory(now, [Point(end, 10.0, {"messagesIn": 50}) for end in ends])

    async def _runtime(self, address: str) -> dict[str, str]:
        self.asked.append(("runtime", address))
        return {"putTps": "7 7 7"}

    async def _consume_stats(self, group: str) -> Any:
        self.asked.append(("group", group))
        if group not in self.lags:
            raise PyrmqError(f"no group {group}")
        return SimpleNamespace(failed=[], diff=self.lags[group])


def cluster_of(count: int = 1) -> Cluster:
    return Cluster([Replica("C", f"broker-{n}", 0, f"10.0.0.{n}:10911") for n in range(count)])


def history_of(cluster: Cluster) -> History:
    """One that samples this cluster."""
    admin: Any = cluster
    made = History(now=cluster.now)
    made.look(admin)
    return made


@pytest.fixture
def no_alarms(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(self: object, admin: object) -> None:
        pass

    monkeypatch.setattr(module.Watch, "round", nothing)


pytestmark = pytest.mark.usefixtures("no_alarms")


async def test_it_samples_while_somebody_looks_and_pauses_then(autojump_clock: MockClock) -> None:
    cluster = cluster_of()
    history = History(now=cluster.now)
    looker: Any = cluster
    async with trio.open_nursery() as nursery:
        nursery.start_soon(history.run)
        await trio.sleep(100)
        assert cluster.asked == []
        history.look(looker)
        await trio.sleep(PAUSE + 5 * PERIOD)
        asked = len(cluster.asked)
        assert PAUSE / PERIOD - 1 <= asked <= PAUSE / PERIOD + 1
        await trio.sleep(10 * PAUSE)
        assert len(cluster.asked) == asked
        history.look()
        await trio.sleep(1)
        assert len(cluster.asked) == asked + 1
        nursery.cancel_scope.cancel()


async def test_one_request_a_broker_in_ten_seconds(autojump_clock: MockClock) -> None:
    cluster = cluster_of(3)
    cluster.apache = {"10.0.0.2:10911"}
    history = history_of(cluster)
    for _ in range(6):
        await history.sample()
        await trio.sleep(PERIOD)
    by_broker = [[kind for kind, at in cluster.asked if at == r.address] for r in cluster.replicas]
    assert by_broker[0] == ["history"] * 6
    assert by_broker[2] == ["history", *["runtime"] * 6]
    hour = history.of_cluster()
    assert hour.figures["messages_in"][-1] == 5.0 + 5.0 + 7.0


async def test_a_pause_is_filled_by_what_the_broker_kept(autojump_clock: MockClock) -> None:
    cluster = cluster_of()
    history = history_of(cluster)
    await history.sample()
    assert len(history.of_broker("broker-0").times) == 360, "it starts with the whole hour"
    await trio.sleep(1200)
    await history.sample()
    times = history.of_broker("broker-0").times
    assert all(b - a == STEP_MS for a, b in pairwise(times))
    assert times[-1] == cluster.now()


async def test_what_fails_is_told_and_the_others_are_sampled(autojump_clock: MockClock) -> None:
    cluster = cluster_of(2)
    cluster.broken = {"10.0.0.0:10911"}
    cluster.replicas.append(Replica("C", GONE, 0, GONE, "10.0.0.9:10911"))
    history = history_of(cluster)
    await history.sample()
    assert "10.0.0.0:10911: no connection" in history.problem
    assert not history.of_broker("broker-0").times
    assert history.of_broker("broker-1").times
    assert all(address != GONE for _, address in cluster.asked), "a missing broker is not asked"
    cluster.broken = set()
    await history.sample()
    assert history.problem == ""


async def test_no_more_brokers_than_there_is_room_for(autojump_clock: MockClock) -> None:
    cluster = cluster_of(MAX_BROKERS + 5)
    cluster.keeps = 10
    history = history_of(cluster)
    await history.sample()
    assert len(cluster.asked) == MAX_BROKERS
    assert f"only {MAX_BROKERS} of {MAX_BROKERS + 5} brokers" in history.problem
    cluster.replicas = [Replica("C", f"new-{n}", 0, f"10.1.0.{n}:1") for n in range(MAX_BROKERS)]
    await history.sample()
    assert not history.of_broker("broker-0").times
    assert history.of_broker("new-0").times


async def test_a_broker_that_is_gone_keeps_its_hour(autojump_clock: MockClock) -> None:
    cluster = cluster_of(2)
    history = history_of(cluster)
    await history.sample()
    del cluster.replicas[0]
    await trio.sleep(60)
    await history.sample()
    assert history.of_broker("broker-0").times
    await trio.sleep(3700)
    await history.sample()
    assert not history.of_broker("broker-0").times


async def test_a_group_is_sampled_from_the_first_look_on(autojump_clock: MockClock) -> None:
    cluster = cluster_of()
    cluster.lags = {"g": 5}
    history = history_of(cluster)
    assert history.of_group("g") == []
    await history.sample()
    cluster.lags["g"] = 9
    await trio.sleep(PERIOD)
    await history.sample()
    assert [lag for _, lag in history.of_group("g")] == [5, 9]
    await trio.sleep(GROUP_PAUSE + 1)
    await history.sample()
    asked = cluster.asked.count(("group", "g"))
    assert asked == 2
    assert history.of_group("g") == [], "what is not looked at is forgotten"


async def test_few_groups_are_asked_for_at_a_time(autojump_clock: MockClock) -> None:
    cluster = cluster_of()
    names = [f"g{n}" for n in range(MAX_GROUPS + 8)]
    cluster.lags = dict.fromkeys(names, 1)
    history = history_of(cluster)
    for name in names:
        history.of_group(name)
    for _ in range(8):
        await history.sample()
        await trio.sleep(PERIOD)
    asked = [name for kind, name in cluster.asked if kind == "group"]
    assert sorted(asked) == sorted(names[8:]), "each of the newest 64 once in eight samples"


async def test_a_group_that_fails_leaves_a_gap(autojump_clock: MockClock) -> None:
    cluster = cluster_of()
    history = history_of(cluster)
    history.of_group("unknown")
    await history.sample()
    assert history.of_group("unknown") == []
    assert history.problem == ""


async def test_without_an_admin_it_waits_for_one(autojump_clock: MockClock) -> None:
    cluster = cluster_of()
    history = History(now=cluster.now)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(history.run)
        history.look()
        await trio.sleep(30)
        assert cluster.asked == []
        looker: Any = cluster
        history.look(looker)
        await trio.sleep(1)
        assert cluster.asked == [("history", "10.0.0.0:10911")]
        nursery.cancel_scope.cancel()


async def test_another_user_samples_only_if_the_first_one_cannot(
    autojump_clock: MockClock,
) -> None:
    one, two = cluster_of(), cluster_of()
    history = history_of(one)
    other: Any = two
    history.look(other)
    await history.sample()
    assert (len(one.asked), len(two.asked)) == (1, 0)
    one.denied = {"10.0.0.0:10911"}
    await history.sample()
    history.look(other)
    await history.sample()
    assert (len(one.asked), len(two.asked)) == (2, 1)
    two.replicas = []
    two.closed = True
    await history.sample()
    assert history.problem == "closed"
    one.denied = set()
    history.look(one)  # type: ignore[arg-type]
    await history.sample()
    assert history.problem == ""


async def test_an_error_of_ours_does_not_end_it(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = cluster_of()
    history = history_of(cluster)
    replicas = cluster.replicas
    cluster.replicas = None  # type: ignore[assignment]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(history.run)
        history.look()
        await trio.sleep(PERIOD + 1)
        assert "see the console's log" in history.problem
        cluster.replicas = replicas
        await trio.sleep(PERIOD)
        assert history.of_broker("broker-0").times
        nursery.cancel_scope.cancel()
    assert "next try follows" in caplog.text
