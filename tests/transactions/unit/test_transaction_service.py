"""The service's tasks: what goes wrong in one round does not end them."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pyrmq.errors import ServiceNotAvailableError, SystemBusyError
from pyrmq.net.clock import now_ms
from pyrmq.txn import Rules, TransactionService


class Engine:
    """Fails in its own ways, one after the other."""

    def __init__(self, errors: list[Exception]) -> None:
        self.errors = errors
        self.calls = 0

    def rebuilt(self) -> dict[str, int]:
        return {"broken": 0}

    def write_owed(self) -> None:
        pass

    def pending(self) -> int:
        return 0

    def before(self, *_: int) -> list[int]:
        return []

    def due(self, *_: int) -> Any:
        self.calls += 1
        if self.errors:
            raise self.errors.pop()
        return [], 10

    def progress(self) -> tuple[int, int, int]:
        if self.errors:
            raise self.errors[0]
        return 0, 0, 0


class Store:
    def queue_range(self, topic: str, queue_id: int) -> tuple[int, int]:
        return (0, 10) if "HALF" in topic else (0, 0)

    def stats(self) -> dict[str, int]:
        return {"maxPhyOffset": 0}

    def flushed(self) -> int:
        return 0


class Nobody:
    def reachable(self, group: str, topic: str) -> bool:
        return False

    def pick(self, group: str, topic: str, turn: int) -> None:
        return None


def service_of(engine: Engine) -> TransactionService:
    """With a check pass every second."""
    return TransactionService(
        Store(),  # type: ignore[arg-type]
        engine,  # type: ignore[arg-type]
        Rules(transaction_check_interval=1000),
        producers=Nobody(),
        broker_name="b",
        message_id=str,
    )


@pytest.mark.parametrize(
    "error", [ServiceNotAvailableError("full"), OSError("disk"), ValueError("a bug")]
)
async def test_a_failed_pass_is_followed_by_the_next(
    error: Exception, autojump_clock: MockClock
) -> None:
    engine = Engine([error, error])
    service = service_of(engine)
    async with trio.open_nursery() as nursery:
        await nursery.start(service.run)
        await trio.sleep(4.5)
        nursery.cancel_scope.cancel()
    assert engine.calls == 4
    assert service.checker.passes == 4


async def test_a_stopped_service_asks_nobody(autojump_clock: MockClock) -> None:
    engine = Engine([])
    service = service_of(engine)
    async with trio.open_nursery() as nursery:
        await nursery.start(service.run)
        await trio.sleep(1.5)
        service.stop()
        await trio.sleep(5)
        nursery.cancel_scope.cancel()
    assert service.checker.passes == 1


async def test_new_rules_count_at_once(autojump_clock: MockClock) -> None:
    """Also for the pause that is under way, and for who ends transactions."""
    engine = Engine([])
    service = service_of(engine)
    service.rules = Rules(transaction_check_interval=30_000)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(service.run)
        await trio.sleep(5)
        service.rules = Rules(transaction_check_interval=6_000, transaction_check_max=3)
        await trio.sleep(0.5)
        assert engine.calls == 0
        await trio.sleep(1)
        assert engine.calls == 1
        nursery.cancel_scope.cancel()
    assert service.ender.rules is service.checker.rules is service.rules


class BusyEngine(Engine):
    """A half that is due; the store is busy for the first times that it is to be renewed."""

    def __init__(self, busy: int) -> None:
        super().__init__([])
        self.busy = busy
        self.renewed = 0

    def due(self, *_: int) -> Any:
        born = now_ms() - 60_000
        return [(3, 100, born, born, -1, 0, "G", "T")], 10

    def renew(self, offsets: list[int], asked: bool) -> list[Any]:
        if self.busy:
            self.busy -= 1
            raise SystemBusyError("a write takes long")
        self.renewed += 1
        return []


class Somebody(Nobody):
    def reachable(self, group: str, topic: str) -> bool:
        return True

    def pick(self, group: str, topic: str, turn: int) -> Any:
        return lambda frame: None


async def test_a_pass_waits_for_a_slow_disk(autojump_clock: MockClock) -> None:
    engine = BusyEngine(busy=7)
    service = service_of(engine)
    service.checker._producers = Somebody()
    await service.check_pass()
    assert (engine.busy, engine.renewed) == (0, 1)
    engine = BusyEngine(busy=1_000_000)
    service = service_of(engine)
    service.checker._producers = Somebody()
    await service.check_pass()  # not for ever
    assert engine.renewed == 0
