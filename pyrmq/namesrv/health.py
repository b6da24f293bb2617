"""Whether a name server lives, and is ready: what /healthz, /readyz and watchdogs ask.

That an answer comes shows that the loop runs: all checks run on it. That no broker has registered
is no fault of the name server: it is ready to take the first one.
"""

from __future__ import annotations

from collections.abc import Callable

from pyrmq.net.health import Health


class NamesrvHealth(Health):
    """`waits`: seconds until routes are given (needWaitForService); 0: they are given."""

    def __init__(self, name: str, waits: Callable[[], float]) -> None:
        self._waits = waits
        super().__init__(name, {"loop": lambda: None}, {"routes": self._check_routes})

    def _check_routes(self) -> tuple[str, str] | None:
        left = self._waits()
        if left <= 0:
            return None
        return (
            f"routes are refused for another {left:.0f} s, until brokers had time to register",
            "wait, or set needWaitForService=false",
        )
