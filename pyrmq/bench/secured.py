"""What the engine's connections need to speak TLS: contents of files, and names of brokers."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyrmq.bench.options import OptionError
from pyrmq.errors import ConfigError
from pyrmq.escape import escape
from pyrmq.net.address import parse_address
from pyrmq.net.client.tls import Tls
from pyrmq.net.client.tls_context import MAX_FILE

SYSTEMS = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
"""Where systems keep the certificates that they trust, all in one file."""


def native(tls: Tls, hosts: Mapping[str, str]) -> dict[str, Any]:
    """As `BenchRun` takes it. `hosts`: of each broker, by its ip:port, its `host:port` as users and
    name servers state it. Reads files. OptionError."""
    own = None
    if tls.cert is not None:
        own = _read(tls.cert, "--tls-cert"), _read(tls.key or tls.cert, "--tls-key")
    return {
        "ca": b"" if tls.insecure else _read(tls.ca or _systems(), "--tls-ca"),
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


def _systems() -> str:
    found = ssl.get_default_verify_paths()
    for path in (found.cafile, *SYSTEMS):
        if path and os.path.isfile(path):
            return path
    raise OptionError("the system's trusted certificates were not found: name a file with --tls-ca")


def _read(path: str | Path, option: str) -> bytes:
    try:
        with open(path, "rb") as file:
            found = file.read(MAX_FILE + 1)
    except (OSError, ValueError) as e:
        why = e.strerror if isinstance(e, OSError) else "it is no path"
        raise OptionError(f"{option} {escape(str(path))}: {why}") from None
    if len(found) > MAX_FILE:
        raise OptionError(f"{option} {escape(str(path))}: more than {MAX_FILE} bytes")
    return found
