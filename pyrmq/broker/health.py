"""Whether a broker lives, and whether it is ready: what /healthz, /readyz and watchdogs ask.

That an answer comes shows that the loop runs: all checks run on it.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from pyrmq.broker.config.broker_config import LiveConfig
from pyrmq.broker.config.service import SYNC_MASTER
from pyrmq.broker.registration import Registration
from pyrmq.broker.replication.replicating import Replicating
from pyrmq.engine import Store
from pyrmq.net.health import Health, Progress

STUCK = 30.0
"""Seconds without progress of what is confirmed or flushed; then the broker is not ready."""
DEAD = 300.0
"""Seconds without progress of what is flushed; then the flusher counts as dead."""


class BrokerHealth(Health):
    """`leaving` says why the broker is about to leave the routes, or has left them; "" if not."""

    def __init__(
        self,
        live: LiveConfig,
        store: Store,
        registration: Registration,
        replicating: Replicating,
        leaving: Callable[[], str],
        clock: Callable[[], float] = trio.current_time,
    ) -> None:
        self._config = live
        self._store = store
        self._registration = registration
        self._replicating = replicating
        self._leaving = leaving
        self._flushed, self._confirmed = Progress(clock), Progress(clock)
        super().__init__(
            f"broker {live.now.broker_name}",
            {"loop": lambda: None, "flusher": self._check_flusher},
            {
                "confirmed": self._check_confirmed,
                "store": self._check_store,
                "registered": self._check_registered,
                "role": self._check_role,
                "draining": self._check_draining,
            },
        )

    def _stuck(self) -> tuple[float, float]:
        """Seconds for which the flusher, and what is confirmed, have stood still."""
        end = int(self._store.stats()["maxPhyOffset"])
        flushed = self._flushed.seconds_stuck(self._store.flushed(), end)
        return flushed, self._confirmed.seconds_stuck(self._store.confirmed(), end)

    def _check_flusher(self) -> tuple[str, str] | None:
        failure = self._store.failure()
        if failure is not None:
            return (
                f"nothing is confirmed any more: {failure}",
                "check the disk (dmesg), then restart the broker: it reads what is on disk again",
            )
        flushed, _ = self._stuck()
        if flushed >= DEAD:
            return (
                f"the log was not flushed for {flushed:.0f} s",
                "check whether the disk answers (iostat, dmesg), then restart the broker",
            )
        return None

    def _check_confirmed(self) -> tuple[str, str] | None:
        flushed, confirmed = self._stuck()
        if confirmed >= STUCK and self._config.now.waits_for_slaves:
            return (
                f"no message was confirmed for {confirmed:.0f} s",
                "look at the slaves and the disk: pyrmq mqadmin haStatus -b ADDRESS",
            )
        if max(flushed, confirmed) >= STUCK:
            return (
                f"the log was not flushed for {max(flushed, confirmed):.0f} s",
                "check whether the disk answers (iostat, dmesg)",
            )
        return None

    def _check_store(self) -> tuple[str, str] | None:
        why = self._store.refusal()
        if why is None:
            return None
        return (
            f"messages are refused: {why}",
            "make room on the disk, or mend what the text names; the broker goes on by itself",
        )

    def _check_registered(self) -> tuple[str, str] | None:
        registration = self._registration
        if registration.left:
            return (
                "another broker has become the master of this brokerName",
                "restart this broker as its slave: docs/replication.md says how",
            )
        missing = registration.unregistered
        if not missing or len(missing) < registration.name_servers:
            return None
        return (
            f"no name server knows this broker ({', '.join(missing)}): clients do not find it",
            "check namesrvAddr, and that the name servers run; the broker's log has the reason",
        )

    def _check_role(self) -> tuple[str, str] | None:
        config, replicating = self._config.now, self._replicating
        if config.is_slave:
            if replicating.has_master():
                return None
            replication = replicating.replication
            why = replication.why if replication is not None else ""
            return (
                f"this slave follows no master{': ' if why else ''}{why}",
                "start the master, or promote this slave: docs/replication.md says how",
            )
        server = replicating.server
        if config.broker_role != SYNC_MASTER or not config.waits_for_slaves or server is None:
            return None
        in_sync = 1 + sum(bool(row["inSync"]) for row in server.master.replicas())
        needed = config.in_sync_replicas
        if config.enable_auto_in_sync_replicas:
            needed = config.min_in_sync_replicas
        if in_sync >= needed:
            return None
        return (
            f"{in_sync} of {needed} replicas are in sync, this one included",
            "start the slave, or wait until it has caught up: pyrmq mqadmin haStatus -b ADDRESS",
        )

    def _check_draining(self) -> tuple[str, str] | None:
        why = self._leaving()
        if not why:
            return None
        return why, "no action if that is meant; else: pyrmq admin broker bring-back BROKER"
