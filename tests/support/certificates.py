"""A small authority that issues certificates for tests, and contexts of scripted servers."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme


@dataclass(frozen=True, slots=True)
class Identity:
    """Files (PEM) of a certificate and its key."""

    cert: Path
    key: Path

    def serving(self, clients: Authority | None = None) -> ssl.SSLContext:
        """A server with it; `clients`: who has signed the certificates that clients must have."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.cert, self.key)
        if clients is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(clients.file)
        return context


class Authority:
    """`file` has its certificate; it writes below `folder`."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._ca = trustme.CA(organization_name=name)
        self._folder = folder
        self._count = 0
        self.name = name
        self.file = folder / f"{name}.pem"
        self._ca.cert_pem.write_to_path(self.file)

    def issue(self, *names: str, days: float = 30) -> Identity:
        """A certificate for names and addresses that ends in so many days."""
        now = datetime.now(UTC)
        made = self._ca.issue_cert(
            *names,
            not_before=now - timedelta(days=60),
            not_after=now + timedelta(days=days),
        )
        self._count += 1
        found = Identity(
            self._folder / f"{self.name}-{self._count}.pem",
            self._folder / f"{self.name}-{self._count}.key",
        )
        found.cert.write_bytes(b"".join(part.bytes() for part in made.cert_chain_pems))
        found.key.write_bytes(made.private_key_pem.bytes())
        return found
