"""The keys of draining: how a broker leaves its clients, before a stop and on request."""

from __future__ import annotations

from dataclasses import dataclass

from pyrmq.broker.config.service import ServiceConfig
from pyrmq.config.table import key

NO_DRAIN, DRAIN_WRITE, DRAIN_ALL = "NONE", "WRITE", "ALL"


@dataclass(frozen=True, slots=True)
class DrainConfig(ServiceConfig):
    """The part of BrokerConfig about draining."""

    broker_drain: str = key(
        NO_DRAIN,
        "Which clients leave this broker: those that send (WRITE), or also those that consume "
        "(ALL). They learn it from routes; the broker goes on to serve them. `pyrmq admin broker "
        "drain` sets it. Not RocketMQ's.",
        choices=(NO_DRAIN, DRAIN_WRITE, DRAIN_ALL),
        section="Draining ([rolling-restart.md](rolling-restart.md))",
        live=True,
    )
    drain_timeout_millis: int = key(
        10_000,
        "ms that a stop by SIGTERM waits for clients to move to other brokers, at most; 0: it does "
        "not wait. Without another broker it never waits. Not RocketMQ's.",
        high=3_600_000,
        live=True,
    )
    drain_quiet_millis: int = key(
        1000,
        "ms without a send after which producers count as moved. Not RocketMQ's.",
        low=100,
        high=600_000,
        live=True,
    )
