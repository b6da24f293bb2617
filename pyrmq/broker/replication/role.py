"""A broker's role: what an operator changed it to, and the change itself.

broker.conf says what a broker begins as. A promotion is not written there: the file may be
read-only or another program's. It is kept in config/brokerRole.json, with what was configured then.
If the configuration is another one at a start, the file was edited since: the edit is newer, and
counts.

UPDATE_BROKER_CONFIG with brokerRole changes the role. A slave becomes master once no other master
of its name answers. A master becomes a slave. Either takes effect by a restart of the broker inside
of its process: everything is then made again from the log.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import trio

from pyrmq.broker.config.broker_config import OTHER_KEYS, BrokerConfig
from pyrmq.broker.replication.replicating import Replicating
from pyrmq.broker.replication.slave import State
from pyrmq.broker.replication.sole_master import SoleMaster
from pyrmq.broker.tables import config_file
from pyrmq.config.table import parsed, values_of
from pyrmq.errors import (
    ConfigError,
    InvalidParameterError,
    NoPermissionError,
    ServiceNotAvailableError,
)
from pyrmq.escape import escape
from pyrmq.net.address import format_address
from pyrmq.net.client.channel import Channels
from pyrmq.net.client.server_access import channels_of
from pyrmq.net.clock import now_ms

log = logging.getLogger(__name__)

FILE = Path("config") / "brokerRole.json"
"""Below the store's folder."""
MASTER_FILE = "masterSince.json"
"""Beside it: what a slave's master has said of since when it is one."""
KEYS = ("brokerRole", "brokerId")
LAST_WORDS = 1.0
"""Seconds that a connection to the master may take to end."""


@dataclass(frozen=True, slots=True)
class Role:
    """`config` with the role that counts, and since when it is that (ms; 0: as configured)."""

    config: BrokerConfig
    since: int


def _path(config: BrokerConfig) -> Path:
    return config.store_path_root_dir / FILE


def _texts(values: object) -> dict[str, str] | None:
    if not isinstance(values, dict):
        return None
    found = {key: values[key] for key in KEYS if isinstance(values.get(key), str)}
    return found if len(found) == len(KEYS) else None


def load(config: BrokerConfig, pinned: Mapping[str, str]) -> Role:
    """The role of a store. Raises ConfigError for an invalid file. `pinned`: keys that are set
    where no change reaches, and by what."""
    path = _path(config)
    content = config_file.load(path)
    if not content:
        return Role(config, 0)
    role, configured = _texts(content.get("role")), _texts(content.get("configured"))
    since = content.get("since")
    if role is None or configured is None or not isinstance(since, int):
        raise ConfigError(f"{path}: this is no role: mend the file, or remove it with its .bak")
    before = _values(config)
    if setter := next((pinned[key] for key in KEYS if key in pinned), None):
        log.warning("the change of the role does not count: %s sets it", escape(setter))
        return Role(config, 0)
    if role == before:  # the file of the broker says it too, by now
        return Role(config, since)
    if configured != before:
        log.warning(
            "the role that an operator set does not count any more: broker.conf was edited since"
        )
        return Role(config, 0)
    changed = _with(config, role)
    text = f"{changed.broker_role} with brokerId {changed.broker_id}"
    log.info("the role is %s, as an operator set it", escape(text))
    return Role(changed, since)


def _values(config: BrokerConfig) -> dict[str, str]:
    values = values_of(config)
    return {key: values[key] for key in KEYS}


def _with(config: BrokerConfig, role: Mapping[str, str]) -> BrokerConfig:
    return dataclasses.replace(config, **parsed(BrokerConfig, dict(role), OTHER_KEYS))


def forget(root: Path) -> None:
    """Has the configuration count again for the store in `root`. OSError."""
    path = root / FILE
    for name in (path.name, path.name + ".bak"):
        path.with_name(name).unlink(missing_ok=True)


def next_since(config: BrokerConfig) -> int:
    """Since when a slave that becomes master now is one, ms: later than the master that it follows,
    whatever the clock of that one's machine said. Blocking. ConfigError for a file that cannot be
    meant."""
    seen = config_file.load(_path(config).with_name(MASTER_FILE)).get("masterSince")
    return max(now_ms(), seen + 1 if isinstance(seen, int) else 0)


def save(configured: BrokerConfig, role: Mapping[str, str], since: int) -> None:
    """Keeps a change of the role for the next start. Blocking. ConfigError for one that cannot be,
    OSError if it cannot be written."""
    before = _values(configured)
    wanted = {**before, **role}
    _with(configured, wanted)
    content: dict[str, object] = {
        "role": wanted,
        "configured": before,
        "since": since,
    }
    config_file.save(_path(configured), content)


class Promotion:
    """`configured`: without the changes of operators; `now`: with them. `restart` is called once
    the change is kept. `log_end` says where the log ends."""

    def __init__(
        self,
        configured: BrokerConfig,
        now: BrokerConfig,
        pinned: Mapping[str, str],
        replicating: Replicating,
        sole: SoleMaster,
        restart: Callable[[], None],
        log_end: Callable[[], int],
    ) -> None:
        self._configured = configured
        self._now = now
        self._pinned = pinned
        self._replicating = replicating
        self._sole = sole
        self._restart = restart
        self._log_end = log_end

    async def change(self, values: Mapping[str, str], by: str) -> str:
        """Changes the role, and says what it did. `values`: brokerRole, and brokerId with it.
        InvalidParameterError, NoPermissionError, ServiceNotAvailableError."""
        wanted = dict(values)
        if others := sorted(set(wanted) - set(KEYS)):
            raise InvalidParameterError(
                f"nothing was changed: {', '.join(others)}: brokerRole changes by itself, with "
                "brokerId at most"
            )
        if setter := next((self._pinned[key] for key in KEYS if key in self._pinned), None):
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
                since = await trio.to_thread.run_sync(next_since, self._configured)
            await trio.to_thread.run_sync(save, self._configured, wanted, since)
        except ConfigError as e:
            raise InvalidParameterError(f"nothing was changed: {e}") from e
        except OSError as e:
            raise ServiceNotAvailableError(f"the role cannot be saved: {e.strerror}") from e
        text = f"{self._now.broker_role} -> {name}"
        log.info("the role is changed by %s: %s: restarting", escape(by), escape(text))
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
        async with channels_of(self._now) as channels:
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
        own = self._log_end()
        for address, log_end in (await self._sole.log_ends_of_slaves(channels)).items():
            if log_end > own:
                raise NoPermissionError(
                    f"nothing was changed: the slave {format_address(address)} has the log up to "
                    f"{log_end}, this one up to {own}: promote that one, or stop it first"
                )
