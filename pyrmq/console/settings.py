"""What the console is started with."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from urllib.parse import urlsplit

from pyrmq.admin.expected import Expected
from pyrmq.errors import ConfigError
from pyrmq.escape import escape
from pyrmq.net.address import Address, is_loopback, parse_addresses
from pyrmq.net.client.credentials import Credentials
from pyrmq.net.client.tls import Tls

PORT = 8090
"""The port, unless --bind says another one."""
LOOPBACK = "127.0.0.1"


class Role(Enum):
    """What a user of the console may do. With login by the broker's users, the broker decides
    besides."""

    READ_ONLY = "read-only"
    ADMIN = "admin"


class LoginKind(Enum):
    """How users log in."""

    NONE = "none"
    BROKER = "broker"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class Settings:
    """`namesrv`: `host:port;host:port`. `bind`: where the console listens; port 0 takes a free one.
    `credentials`, `tls`: what it connects to the cluster with; with login by the broker's users
    each user's own credentials sign instead. `timeout`: seconds for a request to a server."""

    namesrv: str
    bind: Address = (LOOPBACK, PORT)
    read_only: bool = False
    login: LoginKind = LoginKind.NONE
    password_file: Path | None = None
    credentials: Credentials | None = None
    tls: Tls | None = None
    timeout: float | None = None
    cert: Path | None = None
    key: Path | None = None
    url: str = ""
    """The address that browsers use, if a proxy stands before the console."""
    hosts: tuple[str, ...] = ()
    """Names by which browsers may call the console, besides addresses and those of this machine."""
    expected: Expected | None = field(default=None, compare=False)
    """The brokers that should be there; by default those that the console has seen."""

    def check(self) -> None:
        """ConfigError for settings that do not go together."""
        if not parse_addresses(self.namesrv):
            raise ConfigError("no name server is given: -n HOST:PORT")
        if self.login is LoginKind.NONE and not is_loopback(self.bind[0]):
            raise ConfigError(
                f"the console on {escape(self.bind[0])} would let everybody who reaches it "
                "administrate the cluster: give --login broker (the users of the brokers) or "
                "--login FILE (pyrmq console passwords set FILE NAME makes one), or bind to "
                f"{LOOPBACK}"
            )
        if self.key is not None and self.cert is None:
            raise ConfigError("--key is the key of a certificate: give --cert too")
        if self.url:
            try:
                parts = urlsplit(self.url)
                whole = parts.scheme in ("http", "https") and bool(parts.hostname)
                whole = whole and parts.path in ("", "/") and not parts.query
            except ValueError:
                whole = False
            if not whole:
                raise ConfigError(f"--url {escape(self.url)} is not http[s]://HOST[:PORT]")

    @property
    def secure(self) -> bool:
        """Whether browsers come by TLS."""
        return self.cert is not None or self.url.startswith("https:")
