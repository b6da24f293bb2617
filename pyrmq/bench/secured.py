"""What the engine's connections need to speak TLS: files, and names of brokers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyrmq.bench.options import OptionError
from pyrmq.errors import ConfigError
from pyrmq.escape import escape
from pyrmq.net.address import parse_address
from pyrmq.net.client.tls import Tls
from pyrmq.net.client.tls_authorities import system_files


def native(tls: Tls, hosts: Mapping[str, str]) -> dict[str, Any]:
    """As `BenchRun` takes it. `hosts`: of each broker, by its ip:port, its `host:port` as users and
    name servers state it. OptionError for a file that cannot be read."""
    own = None
    if tls.cert is not None:
        own = _file(tls.cert, "--tls-cert"), _file(tls.key or tls.cert, "--tls-key")
    return {
        "ca": _file(tls.ca, "--tls-ca") if tls.ca is not None else None,
        "system": [] if tls.insecure or tls.ca is not None else _systems(),
        "own": own,
        "password": tls.key_password,
        "any_name": not tls.check_hostname,
        "insecure": tls.insecure,
        "names": {ip: _name(tls, host) for ip, host in hosts.items()},
    }


def _name(tls: Tls, address: str) -> str:
    try:
        return tls.host_of(parse_address(address)[0])
    except ConfigError as e:
        raise OptionError(f"the address of a broker is none: {escape(str(e))}") from None


def _systems() -> list[str]:
    found = system_files()
    if not found:
        raise OptionError(
            "the system's trusted certificates were not found: name a file with --tls-ca"
        )
    return [str(path) for path in found]


def _file(path: str | Path, option: str) -> str:
    """The path of a file that can be read."""
    try:
        with open(path, "rb"):
            return str(path)
    except (OSError, ValueError) as e:
        why = e.strerror if isinstance(e, OSError) else "it is no path"
        raise OptionError(f"{option} {escape(str(path))}: {why}") from None
