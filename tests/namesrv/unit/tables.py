"""The route tables without turns, and registrations for them."""

from __future__ import annotations

from typing import Any

from pyrmq.model.route import TopicRoute
from pyrmq.model.topic import DataVersion
from pyrmq.namesrv.routes import Registration, Routes
from pyrmq.namesrv.views import (
    route_of,
)
from pyrmq.net.server.turns import finish

TWO = {"T": 4, "U": 8}


def registration(
    name: str = "a",
    broker_id: int = 0,
    address: str = "h:1",
    topics: dict[str, int] | None = None,
    *,
    counter: int = 1,
    state: int = 0,
    **more: Any,
) -> Registration:
    """`topics`: queue counts by name."""
    queues = {t: (n, n, 6, 0) for t, n in (TWO if topics is None else topics).items()}
    version = DataVersion(0, counter, state)
    cluster = more.pop("cluster", "C")
    return Registration(cluster, name, broker_id, address, "ha:1", queues, version, **more)


class Tables(Routes):
    """Does at once what the name server does in turns."""

    def add(self, r: Registration, now: float, owner: object | None, **more: Any) -> str | None:
        admitted = self.register(r, now, owner, **more)
        if admitted is None:
            return None
        assert finish(self.take(admitted))
        return admitted.master

    def leave(self, cluster: str, name: str, broker_id: int, address: str) -> None:
        self.unregister(cluster, name, broker_id, address)
        finish(self.sweep())

    def route(self, topic: str, **more: Any) -> TopicRoute | None:
        return route_of(self, topic, **more)


def names(routes: Tables, topic: str = "T") -> list[str]:
    route = routes.route(topic)
    return [q.broker_name for q in route.queues] if route else []
