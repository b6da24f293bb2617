"""Changing a broker's role by an operator's word: UPDATE_BROKER_CONFIG with brokerRole.

A slave becomes master once no other master of its name answers. A master becomes a slave. Either
takes effect by a restart of the broker inside of its process: all is then made anew from the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

import trio

from pyrmq.broker.config.broker_config import BrokerConfig
from pyrmq.broker.replication import role
from pyrmq.broker.replication.replicating import Replicating
from pyrmq.broker.replication.slave import State
from pyrmq.broker.replication.sole_master import SoleMaster
from pyrmq.errors import (
    ConfigError,
    InvalidParameterError,
    NoPermissionError,
    ServiceNotAvailableError,
)
from pyrmq.escape import escape
from pyrmq.net.address import format_address
from pyrmq.net.client.channel import Channels

log = logging.getLogger(__name__)

LAST_WORDS = 1.0
"""Seconds that a connection to the master may take to end."""


class Promotion:
    """`configured`: without the changes of operators; `now`: with them. `restart` is called once
    the change is kept. `end` says where the log ends."""

    def __init__(
        self,
        configured: BrokerConfig,
        now: BrokerConfig,
        pinned: Mapping[str, str],
        replicating: Replicating,
        sole: SoleMaster,
        restart: Callable[[], None],
        end: Callable[[], int],
    ) -> None:
        self._configured = configured
        self._now = now
        self._pinned = pinned
        self._replicating = replicating
        self._sole = sole
        self._restart = restart
        self._end = end

    async def change(self, values: Mapping[str, str], by: str) -> str:
        """Changes the role, and says what it did. `values`: brokerRole, and brokerId with it.
        InvalidParameterError, NoPermissionError, ServiceNotAvailableError."""
        wanted = dict(values)
        if others := sorted(set(wanted) - set(role.KEYS)):
            raise InvalidParameterError(
                f"nothing was changed: {', '.join(others)}: brokerRole changes by itself, with "
                "brokerId at most"
            )
        if setter := next((self._pinned[key] for key in role.KEYS if key in self._pinned), None):
            raise NoPermissionError(f"nothing was changed: {setter} sets the role")
        name = wanted.get("brokerRole", self._now.broker_role)
        if name != "SLAVE":
            wanted.setdefault("brokerId", "0")
        if wanted == {key: value for key, value in self._values().items() if key in wanted}:
            return "nothing changed: these are the values already"
        if self._now.is_slave and name != "SLAVE":
            await self._check_alone()
        stays_master = not self._now.is_slave and name != "SLAVE"
        try:
            since = self._replicating.since
            if not stays_master:
                since = await trio.to_thread.run_sync(role.next_since, self._configured)
            await trio.to_thread.run_sync(role.save, self._configured, wanted, since)
        except ConfigError as e:
            raise InvalidParameterError(f"nothing was changed: {e}") from e
        except OSError as e:
            raise ServiceNotAvailableError(f"the role cannot be saved: {e.strerror}") from e
        text = f"{self._now.broker_role} -> {name}"
        log.warning("the role is changed by %s: %s: restarting", escape(by), escape(text))
        self._restart()
        return f"{text}: the broker restarts"

    def _values(self) -> dict[str, str]:
        return {"brokerRole": self._now.broker_role, "brokerId": str(self._now.broker_id)}

    async def _check_alone(self) -> None:
        """NoPermissionError while a master of this name is there."""
        replication = self._replicating.replication
        with trio.move_on_after(LAST_WORDS):  # a master that was killed just now
            while (  # noqa: ASYNC110 - a bounded wait, not worth an event
                replication is not None and replication.state is State.FOLLOWING
            ):
                await trio.sleep(0.05)
        if replication is not None and replication.state is State.FOLLOWING:
            assert replication.master is not None
            where = format_address(replication.master.broker)
            raise NoPermissionError(
                f"nothing was changed: the master {where} is there, and this slave follows it: "
                "stop it first"
            )
        async with Channels() as channels:
            await self._check_slaves(channels)
            others = await self._sole.others(channels)
            if replication is not None and replication.master is not None:
                own = await self._sole.at(channels, replication.master.broker)
                others += [own] if own is not None else []
        for other in others:
            if other.proven is False:
                self._sole.is_stranger(other)
                continue
            raise NoPermissionError(
                f"nothing was changed: {format_address(other.address)} is master of this name, and "
                "answers: stop it first"
            )

    async def _check_slaves(self, channels: Channels) -> None:
        """NoPermissionError while another slave of this name is further than this one."""
        own = self._end()
        for address, end in (await self._sole.ends_of_slaves(channels)).items():
            if end > own:
                raise NoPermissionError(
                    f"nothing was changed: the slave {format_address(address)} has the log up to "
                    f"{end}, this one up to {own}: promote that one, or stop it first"
                )
