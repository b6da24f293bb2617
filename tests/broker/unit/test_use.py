"""Who uses the broker, on connections of lists: clients by the hundred thousand, and time."""

from __future__ import annotations

import json
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import trio
import trio.testing

from pyrmq.broker.requests.use import UseProcessor
from pyrmq.broker.stats import folding
from pyrmq.broker.stats.broker_stats import BrokerStats
from pyrmq.broker.stats.use import Use, client_of
from pyrmq.net.clock import Clock, go_by

DAY_MS = 86_400_000


class Connection:
    """An open connection that has used something since it was asked last."""

    def __init__(self, client_id: str, peer: str, messages: int = 0, nbytes: int = 0) -> None:
        self.client_id, self.peer = client_id, peer
        self.is_closed = False
        self.session = SimpleNamespace(take_used=self._take)
        self._used = messages, nbytes

    def _take(self) -> Any:
        (messages, nbytes), self._used = self._used, (0, 0)
        if not messages:
            return None
        return (messages, 0, 0, 0, 0), (messages, nbytes, 0, 0), [("g", 1, messages, nbytes)]

    def take_got(self) -> tuple[int, int]:
        return 0, 0


def use_of(connections: Iterable[Connection]) -> Use:
    async def state() -> dict[str, int]:
        return {"connections": 1}

    clients: Any = SimpleNamespace(client_id_of=lambda c: c.client_id or None)
    made: Any = list(connections)
    return Use(clients, lambda: made, state)


async def asked(use: Use, now: float, **ext: object) -> dict[str, Any]:
    processor = UseProcessor(use, lambda: now)
    command: Any = SimpleNamespace(ext={k: str(v) for k, v in ext.items()})
    somebody: Any = object()
    answer = await processor.use(somebody, command)
    body: Any = answer.body
    found: dict[str, Any] = json.loads(body)
    return found


async def test_a_hundred_thousand_clients_and_one_that_hogs() -> None:
    crowd = [Connection(f"c{n}", f"10.0.{n >> 8}.{n & 255}:5", 1, 100) for n in range(100_000)]
    crowd.insert(70_000, Connection("hog", "10.9.9.9:1", 500, 10_000_000))
    use = use_of(crowd)
    await use.sample(10.0)
    found = await asked(use, 10.0, kind="client", seconds=10, limit=1)
    (row,) = found["rows"]
    assert (row["name"], row["host"], row["bytesIn"]) == ("hog", "10.9.9.9", 10_000_000)
    assert found["total"]["messagesIn"] == 100_500
    assert found["count"] == folding.MOST
    assert found["others"]["messagesIn"] == 100_500 - 500 - (folding.MOST - 1)
    assert found["others"]["folded"] >= 100_000 - folding.MOST_OPEN


async def test_clients_are_told_apart_by_id_and_host() -> None:
    use = use_of(
        [
            Connection("a", "10.0.0.1:1", 1, 10),
            Connection("a", "10.0.0.1:2", 2, 20),
            Connection("a", "10.0.0.2:1", 4, 40),
            Connection("", "10.0.0.1:3", 8, 80),
            Connection("a\0b", "[::1]:3", 16, 160),
        ]
    )
    await use.sample(10.0)
    rows = (await asked(use, 10.0, kind="client", seconds=10))["rows"]
    assert {(r["name"], r["host"]): r["messagesIn"] for r in rows} == {
        ("a", "10.0.0.1"): 3,
        ("a", "10.0.0.2"): 4,
        ("", "10.0.0.1:3"): 8,
        ("a\0b", "[::1]"): 16,
    }
    assert client_of("x\0y\0host") == ("x\0y", "host")


async def test_a_step_of_the_time_of_day_moves_all_times_and_no_figure() -> None:
    use = use_of([Connection("a", "10.0.0.1:1", 1, 10)])
    await use.sample(100.0)
    await use.sample(110.0)
    before = await asked(use, 112.0, seconds=60)
    clock = Clock()
    clock.advance(-3 * DAY_MS)
    with go_by(clock):
        after = await asked(use, 112.0, seconds=60)
    for found in (before, after):
        assert found["end"] == found["now"] - 2000
        assert found["begin"] == found["end"] - 10_000
    assert after["rows"] == before["rows"]
    assert before["now"] - after["now"] > 2 * DAY_MS


async def test_it_is_sampled_every_ten_seconds(autojump_clock: trio.testing.MockClock) -> None:
    use = use_of([])
    nothing: Any = SimpleNamespace(
        puts=list, figures=lambda: {"sendLatency": [0, 0, 0]}, get=lambda _: None, groups={}
    )
    stats = BrokerStats("c", nothing, nothing, nothing, trio.lowlevel.checkpoint)
    stats.use = use
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stats.run)
        await trio.sleep(65)
        assert [point.seconds for point in use.points] == [0.0] + [10.0] * 6
        assert len(use.rings["client"].minutes) == 1
        use.stored("T", 3, 300)
        await trio.sleep(3600)
        assert len(use.points) == 360
        assert len(use.rings["client"].minutes) == 60
        nursery.cancel_scope.cancel()
    found = await asked(use, trio.current_time(), kind="topic", seconds=3600)
    assert found["total"]["bytesIn"] == 300 * found["count"]


async def test_how_fast_the_log_grows_of_a_slave_too() -> None:
    """By the log's end: a slave's log grows although no client sends to it."""
    ends = iter((1000, 1500, 4000))

    async def state() -> dict[str, int]:
        return {"logEnd": next(ends)}

    clients: Any = SimpleNamespace(client_id_of=lambda c: None)
    use = Use(clients, list, state)
    assert use.bytes_per_second() is None
    await use.sample(10.0)
    assert use.bytes_per_second() is None
    await use.sample(20.0)
    assert use.bytes_per_second() == 50.0
    await use.sample(40.0)
    assert use.bytes_per_second() == 100.0
