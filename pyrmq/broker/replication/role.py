"""A broker's role where an operator has changed it: config/brokerRole.json.

broker.conf says what a broker begins as. A promotion is not written there: the file may be
read-only or another program's. It is kept beside the store, with what was configured then. Where
that is no longer so at a start, the file was edited since, and the edit, being newer, counts.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyrmq.broker.config.broker_config import BrokerConfig
from pyrmq.broker.config.keys import OTHER_KEYS
from pyrmq.broker.tables import config_file
from pyrmq.config.table import parsed, values_of
from pyrmq.errors import ConfigError
from pyrmq.escape import escape
from pyrmq.net.clock import now_ms

log = logging.getLogger(__name__)

FILE = Path("config") / "brokerRole.json"
"""Below the store's folder."""
MASTER_FILE = "masterSince.json"
"""Beside it: what a slave's master has said of since when it is one."""
KEYS = ("brokerRole", "brokerId")


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
