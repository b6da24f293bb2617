"""What the console is started with."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from pyrmq.net.address import Address
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

    @property
    def secure(self) -> bool:
        """Whether browsers come by TLS."""
        return self.cert is not None or self.url.startswith("https:")
