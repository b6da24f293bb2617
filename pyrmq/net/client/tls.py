"""How a client speaks TLS. [TlsSystemConfig, TlsHelper]"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyrmq.config.tls import (
    CLIENT_AUTH_SERVER,
    CLIENT_CERT,
    CLIENT_KEY,
    client_settings,
    read_tls_properties,
)
from pyrmq.errors import ConfigError

MAX_PASSWORD = 1024
"""Most bytes of the password of a key; OpenSSL takes no longer one."""


@dataclass(frozen=True, slots=True)
class Tls:
    """Connect with TLS, version 1.2 or newer.

    ca: file of the certificates (PEM) that are trusted; default: the system's authorities.
    cert, key, key_password: files (PEM) of the client's own certificate with its chain, and of its
    key, for servers that ask for one. The key may be in the file of the certificate.
    server_hostname: the name that certificates of servers must have; default: the host of each
    address. Addresses of brokers come from the name server, as brokerIP1 says, and are often
    numbers, which certificates do not have.
    check_hostname: False accepts any name in a certificate that is trusted.
    insecure: verify nothing. Anybody on the way can read and change everything then.

    Files are read when a client opens; new connections use changed files. While changed files are
    invalid, the old ones stay in use and a warning is logged. Raises ConfigError if options
    contradict each other.
    """

    ca: str | Path | None = None
    cert: str | Path | None = None
    key: str | Path | None = None
    key_password: str | None = field(default=None, repr=False)
    server_hostname: str | None = None
    check_hostname: bool = True
    insecure: bool = False

    def __post_init__(self) -> None:
        for name in ("ca", "cert", "key"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str | Path):
                raise ConfigError(f"{name} of Tls is {value!r:.80}; the path of a file is needed")
            if value is not None and not str(value):
                raise ConfigError(f"{name} of Tls is empty; the path of a file is needed")
        for name in ("check_hostname", "insecure"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"{name} of Tls must be True or False")
        password, host = self.key_password, self.server_hostname
        if password is not None and not isinstance(password, str):
            raise ConfigError("key_password of Tls must be a text (str)")
        if password is not None and len(password.encode(errors="replace")) > MAX_PASSWORD:
            raise ConfigError(f"key_password of Tls has more than {MAX_PASSWORD} bytes")
        if host is not None and (not isinstance(host, str) or not host or host.startswith(".")):
            raise ConfigError(f"server_hostname of Tls is {host!r:.80}; a host name is needed")
        self._check_together()

    def _check_together(self) -> None:
        if self.cert is None and (self.key is not None or self.key_password is not None):
            raise ConfigError("key and key_password of Tls go with cert, the certificate's file")
        if self.insecure and self.ca is not None:
            raise ConfigError("insecure of Tls verifies nothing: leave out ca, or insecure")
        if not self.check_hostname and self.server_hostname is not None and not self.insecure:
            raise ConfigError("server_hostname of Tls is checked: leave out check_hostname=False")

    @classmethod
    def from_properties(
        cls, path: str | Path, *, server_hostname: str | None = None, check_hostname: bool = True
    ) -> Tls:
        """The keys `tls.client.…` of RocketMQ's tls.properties. ConfigError.

        Differs from RocketMQ: servers are verified unless the file has tls.client.authServer=false
        or tls.test.mode.enable=true.
        """
        return cls.from_keys(
            read_tls_properties(Path(path)),
            server_hostname=server_hostname,
            check_hostname=check_hostname,
        )

    @classmethod
    def from_keys(
        cls,
        values: Mapping[str, str],
        *,
        server_hostname: str | None = None,
        check_hostname: bool = True,
    ) -> Tls:
        """The same from keys and their values; keys that are not a client's are left out."""
        found = client_settings(values)
        if found.test_mode:
            return cls(insecure=True)
        if found.key_path and not found.cert_path:
            raise ConfigError(f"{CLIENT_KEY} needs {CLIENT_CERT}")
        insecure = bool(values.get(CLIENT_AUTH_SERVER, "").strip()) and not found.auth_server
        return cls(
            ca=None if insecure else found.trust_cert_path or None,
            cert=found.cert_path or None,
            key=found.key_path or None,
            key_password=found.key_password or None if found.cert_path else None,
            server_hostname=None if insecure else server_hostname,
            check_hostname=insecure or check_hostname,
            insecure=insecure,
        )

    def host_of(self, host: str) -> str:
        """The name that a server at `host` must have in its certificate."""
        return self.server_hostname or host
