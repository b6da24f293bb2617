"""What may be broken in a broker, to see that the simulation notices it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from tests.system.simulation.pops.life import PopLife


class Fault:
    """Breaks a life of the broker as it begins."""

    name = ""
    first = 0
    """The seed to begin with. A run without revivals ends when nothing can come any more, which may
    take seconds: begin with a short one."""

    def breaks(self, life: PopLife) -> None:
        """Replaces parts of it."""


class NothingIsRevived(Fault):
    name = "NothingIsRevived"
    first = 10

    def breaks(self, life: PopLife) -> None:
        async def revive() -> bool:
            return False

        life.pop.revive.revive = revive  # type: ignore[method-assign]


class AcksInOrderAreForgotten(Fault):
    """They are answered, and leave no record in the log."""

    name = "AcksInOrderAreForgotten"

    def breaks(self, life: PopLife) -> None:
        life.pop.engine.done_in_order = lambda *_: 0  # type: ignore[method-assign]


class AcksAreForgotten(Fault):
    """Batches are answered, and leave no record in the log."""

    name = "AcksAreForgotten"

    def breaks(self, life: PopLife) -> None:
        life.pop.engine.ack = lambda *_, **__: 0  # type: ignore[method-assign]


class _Early:
    """An engine of timers whose clock is ahead."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def due_in(self, now: int) -> Any:
        return self._engine.due_in(now + 5000)

    def deliver(self, now: int, most: int) -> Any:
        return self._engine.deliver(now + 5000, most)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


class TimersAreEarly(Fault):
    """Timer messages are delivered seconds before their time."""

    name = "TimersAreEarly"

    def breaks(self, life: PopLife) -> None:
        life.timers.engine = cast(Any, _Early(life.timers.engine))


FAULTS = [
    (NothingIsRevived(), "never came until they were acknowledged"),
    (AcksInOrderAreForgotten(), "again, which it has acknowledged"),
    (AcksAreForgotten(), "again, which it has acknowledged"),
    (TimersAreEarly(), "before its time"),
]
"""Each with what the simulation says of it."""
