"""How a scenario is to measure: with which broker, how long, on which disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .generator import generate
from .harness import Broker, server
from .prepared import Prepared

BODY = 1024


@dataclass(frozen=True)
class Context:
    """How to measure. `running` is a broker that is there already, of any make."""

    seconds: float = 3.0
    warmup: float = 1.0
    max_messages: int = 1_000_000
    rounds: int = 1
    """How often each broker has its turn."""
    directory: Path | None = None
    running: Broker | None = None
    apache: Prepared | None = None
    """Apache RocketMQ, when it is to be measured as well."""

    @contextmanager
    def broker(self, flush: str = "ASYNC_FLUSH") -> Iterator[Broker]:
        """The running broker, or a new server on a new store."""
        if self.running is not None:
            yield self.running
            return
        with server(flush=flush, directory=self.directory) as broker:
            yield broker

    def load(self, load: str, broker: Broker, **options: object) -> dict[str, Any]:
        """A measured run of the generator; bounded in time and in what it leaves on the disk."""
        base: dict[str, object] = {"connections": 1, "in_flight": 1}
        base |= {"seconds": self.seconds, "warmup": self.warmup}
        if load != "pull":
            base |= {"body": BODY, "count": self.max_messages}
        return generate(load, broker, base | options)
