"""Keys that operators changed while the broker ran: config/brokerConfigUpdates.json.

The file given with -c is not written: it may be read-only, shared, or another program's. An update
goes before that file, and after the command line and the environment; those pin their keys. Each
update has with it what the key was without it. Where that is no longer so at a start, the file was
edited since, and the edit, being newer, counts: the update is dropped.

An update that cannot be written is refused, but for keys that help where the disk is full. They
count at once then, and are written as soon as that is possible.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import trio

from pyrmq.broker.config.broker_config import OTHER_KEYS, BrokerConfig, LiveConfig
from pyrmq.broker.tables import config_file
from pyrmq.config.table import UnusedKey, check_value, keys_of, parsed, values_of
from pyrmq.errors import ConfigError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.topic import DataVersion
from pyrmq.net.clock import now_ms

log = logging.getLogger(__name__)

FILE = Path("config") / "brokerConfigUpdates.json"
"""Below the store's folder."""
HELPING = frozenset({"brokerDrain", "fileReservedTime"})
"""Keys that count also if they cannot be written: clients leave, or files are deleted earlier."""
RETRY = 10.0
"""Seconds between two tries to write what counts already."""
_OTHERS = {row.name: row for row in OTHER_KEYS}


@dataclass(frozen=True, slots=True)
class Update:
    value: str
    configured: str
    """The key's value without the update."""


@dataclass(frozen=True, slots=True)
class Updated:
    """A configuration with the updates of its store."""

    config: BrokerConfig
    updates: dict[str, Update]
    """By key, those that count."""
    dropped: dict[str, str]
    """Keys whose update does not count any more, and why."""


def with_updates(
    config: BrokerConfig, found: Mapping[str, Update], pinned: Mapping[str, str]
) -> Updated:
    """`pinned`: keys that are set where no update reaches, and by what."""
    configured = values_of(config)
    kept: dict[str, Update] = {}
    dropped: dict[str, str] = {}
    for key, update in found.items():
        if key in pinned:
            dropped[key] = f"{pinned[key]} sets it"
        elif update.configured != configured[key]:
            dropped[key] = f"it was configured as {update.configured} then and is no more"
        else:
            kept[key] = update
    return Updated(_changed(config, kept), kept, dropped)


def _changed(config: BrokerConfig, updates: Mapping[str, Update]) -> BrokerConfig:
    values = {key: update.value for key, update in updates.items()}
    return dataclasses.replace(config, **parsed(BrokerConfig, values, OTHER_KEYS))


def load(path: Path) -> tuple[DataVersion, dict[str, Update]]:
    """The content of the file. ConfigError if a row is invalid."""
    content = config_file.load(path)
    table = content.get("updates", {})
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: updates is no object: remove the file or mend it")
    rows = keys_of(BrokerConfig)
    found: dict[str, Update] = {}
    for key, row in table.items():
        update = _update_of(row)
        if update is None or key not in rows or not rows[key][1].live:
            raise ConfigError(
                f"{path}: {key} cannot be updated by this version: remove it there, and put it in "
                "broker.conf"
            )
        try:
            check_value(BrokerConfig, key, update.value, OTHER_KEYS)
        except ConfigError as e:
            raise ConfigError(f"{path}: {e}") from None
        found[key] = update
    version = content.get("dataVersion")
    return DataVersion.from_json(version) if version else DataVersion(now_ms()), found


def _update_of(row: object) -> Update | None:
    if not isinstance(row, dict):
        return None
    value, configured = row.get("value"), row.get("configured")
    if isinstance(value, str) and isinstance(configured, str):
        return Update(value, configured)
    return None


class ConfigUpdates:
    """The configuration of a running broker, and changing it. `config`: without updates. Blocking;
    the store has to be open, so that nobody else writes the file."""

    def __init__(self, config: BrokerConfig, pinned: Mapping[str, str]) -> None:
        self._path = config.store_path_root_dir / FILE
        self._config = config
        self._pinned = pinned
        self._one = trio.Lock()
        self.unsaved = ""
        """Why the file does not have all that counts; empty: it has."""
        self._failed = trio.Event()
        self.version, found = load(self._path)
        """Version of the configuration."""
        updated = with_updates(config, found, pinned)
        self._updates = updated.updates
        self.live = LiveConfig(updated.config)
        for key, update in updated.updates.items():
            text = f"{key}={update.value} by an update; configured is {update.configured}"
            log.info("%s", escape(text))
        for key, why in updated.dropped.items():
            log.warning(
                "an update does not count any more: %s",
                escape(f"{key}: {why}"),
                extra=about(key=key),
            )
        if updated.dropped:
            config_file.save(self._path, self._content(self.version, self._updates))

    def why_not(self, key: str) -> str | None:
        """Why a key cannot be updated, and what to do instead."""
        if key in self._pinned:
            return f"{key} is set by {self._pinned[key]}: change it there and restart the broker"
        if key in _OTHERS:
            other = _OTHERS[key]
            if isinstance(other, UnusedKey):
                return f"{key} has no effect: {other.why}"
            return f"{key} has no other value in this version: leave it out"
        found = keys_of(BrokerConfig).get(key)
        if found is None or not found[1].live:
            return f"{key} cannot be updated: put it in broker.conf and restart the broker"
        return None

    async def update(self, values: Mapping[str, str]) -> dict[str, tuple[str, str]]:
        """Changes keys that may be; they are in the file when this returns, and count from then on.
        Returns what was changed: the value before, and now. ConfigError for an invalid value.
        OSError if the file cannot be written: then nothing is changed, but keys of HELPING, which
        count all the same (`unsaved`)."""
        async with self._one:
            fields = parsed(BrokerConfig, values, OTHER_KEYS)
            config = dataclasses.replace(self.live.now, **fields)
            before, after = values_of(self.live.now), values_of(config)
            changes = {key: (before[key], after[key]) for key in after if before[key] != after[key]}
            if changes:
                configured = values_of(self._config)
                updates = dict(self._updates)
                for key, (_, value) in changes.items():
                    updates[key] = Update(value, configured[key])
                    if value == configured[key]:
                        del updates[key]
                version = dataclasses.replace(self.version)
                version.next(now_ms())
                try:
                    await self._save(version, updates)
                except OSError as e:
                    if not changes.keys() <= HELPING:
                        raise
                    self._not_saved(", ".join(changes), e)
                self.version, self._updates = version, updates
                self.live.change(config)
            return changes

    async def run(self) -> None:
        """Writes what could not be written, until cancelled."""
        while True:
            await self._failed.wait()
            await trio.sleep(RETRY)
            async with self._one:
                if not self.unsaved:
                    self._failed = trio.Event()
                    continue
                with suppress(OSError):
                    await self._save(self.version, self._updates)
                    log.info("all that counts is in %s now", escape(self._path))

    async def _save(self, version: DataVersion, updates: Mapping[str, Update]) -> None:
        content = self._content(version, updates)
        await trio.to_thread.run_sync(config_file.save, self._path, content)
        self.unsaved = ""

    def _not_saved(self, keys: str, error: OSError) -> None:
        self.unsaved = error.strerror or str(error)
        self._failed.set()
        log.error(
            "%s: it counts, but cannot be saved: %s. A restart forgets it; it is tried again every "
            "%g s. Make room on the disk of %s",
            escape(keys),
            escape(self.unsaved),
            RETRY,
            escape(self._path),
            extra=about(key=keys, path=self._path),
        )

    def _content(self, version: DataVersion, updates: Mapping[str, Update]) -> dict[str, object]:
        rows = {key: dataclasses.asdict(update) for key, update in updates.items()}
        return {"dataVersion": version.to_json(), "updates": rows}
