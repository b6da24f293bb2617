"""The addresses that a broker gives to others: clients get brokerIP1 with their routes, slaves
brokerIP2."""

from __future__ import annotations

import logging
import socket
from dataclasses import replace

from pyrmq.broker.config.broker_config import BrokerConfig
from pyrmq.errors import ConfigError
from pyrmq.escape import escape
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
