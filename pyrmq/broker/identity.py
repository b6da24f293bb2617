"""What a broker tells others of itself: its addresses, and its name beside the store.

Clients get brokerIP1 with their routes, slaves brokerIP2. Readers of the store's files find the
broker's name in config/brokerName.json. RocketMQ's broker does not know that file and leaves it
alone.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyrmq.broker.config.broker_config import BrokerConfig
from pyrmq.broker.tables import config_file
from pyrmq.errors import ConfigError
from pyrmq.escape import escape
from pyrmq.model import broker_name
from pyrmq.model.topic import PERM_INHERIT, TopicConfig
from pyrmq.net.address import is_loopback, own_ip, resolve

log = logging.getLogger(__name__)

WILDCARDS = ("", "0.0.0.0", "::")


def with_addresses(config: BrokerConfig) -> BrokerConfig:
    """The configuration with numeric addresses as brokerIP1 and brokerIP2; blocking. A name is
    resolved once: records hold the address in numbers. ConfigError for one without an address."""
    return replace(
        config,
        broker_ip1=_resolved("brokerIP1", config.broker_ip1) or _found(config.bind_address),
        broker_ip2=_resolved("brokerIP2", config.broker_ip2),
    )


def _resolved(key: str, host: str) -> str:
    if not host:
        return ""
    try:
        found = resolve(host)
    except ConfigError as e:
        raise ConfigError(f"{key}={host}: {e}") from e
    if found != host:
        log.info("%s=%s is %s", escape(key), escape(host), found)
    return found


def _found(bind: str) -> str:
    """The address that others most likely reach a broker under that listens there."""
    if bind not in WILDCARDS:
        return resolve(bind)
    found = own_ip()
    if is_loopback(found):
        found = _of_host_name() or found
    if is_loopback(found):
        log.warning(
            "no network was found: the broker announces %s, which only clients on this machine "
            "reach; set brokerIP1 to the address that others reach",
            found,
        )
    return found


def _of_host_name() -> str:
    """Of a machine without a route to other networks, such as a container on an internal one."""
    try:
        found = resolve(socket.gethostname())
    except ConfigError:
        return ""
    return "" if is_loopback(found) else found


def write_name(folder: Path, name: str, topics: Iterable[TopicConfig]) -> None:
    """Keeps a broker's name in its config folder, at start. A broker runs without it as well.

    Before topics.json is saved with the topic of a new name: a name that only topics.json has is
    that of another broker, which came later.
    """
    path = folder / broker_name.FILE
    rows = {t.topic_name: t.to_json() for t in topics if t.perm & PERM_INHERIT}
    value = broker_name.to_json(name, broker_name.names_in_topics(rows))
    try:
        if _load(path) != value:
            config_file.save(path, value)
    except OSError as e:
        log.warning("%s cannot be written: %s", escape(path), escape(e))


def _load(path: Path) -> dict[Any, Any]:
    try:
        return config_file.load(path)
    except ConfigError:
        return {}  # it is written anew
