"""The certificate of a server: made at the start, and read again when its files change.

Connections that are open keep what they began with.
"""

from __future__ import annotations

import logging

import trio

from pyrmq.config import tls
from pyrmq.config.files import Seen, look
from pyrmq.config.tls import TlsServerSettings
from pyrmq.engine import TlsContext
from pyrmq.errors import ConfigError
from pyrmq.escape import escape

log = logging.getLogger(__name__)

LOOK_EVERY = 5.0
"""Seconds between two looks at the files."""
SAY_EVERY = 60.0
"""Seconds between two lines of the log about files that cannot be used, while nothing changes."""


class ServerTls:
    """Give `context` to the server's Listener. ConfigError if the settings cannot be."""

    def __init__(self, name: str, settings: TlsServerSettings) -> None:
        self._name = name
        self._settings = settings
        _check(settings)
        self.context = TlsContext(settings.mode)
        self._used = self._look()
        self._tried: tuple[Seen, Seen, Seen] | None = None
        """Files that could not be used, as they were."""
        self._said_at = 0.0
        if settings.mode == tls.DISABLED:
            return
        if settings.is_self_signed:
            self.context.use_self_signed()
            level = logging.DEBUG if settings.test_mode is None else logging.WARNING
            log.log(level, "%s: TLS with a self-signed certificate, for tests", escape(name))
        elif settings.key_path:
            self._use()
            if settings.need_client_auth != "none" and not settings.auth_client:
                log.warning(
                    "%s: clients are asked for certificates (tls.server.need.client.auth), but "
                    "these are not verified: set tls.server.authClient=true",
                    escape(name),
                )
        else:
            log.info("%s: no certificate (tls.server.certPath): TLS is refused", escape(name))

    def _use(self) -> None:
        """Reads the files. ConfigError."""
        settings = self._settings
        self.context.use_files(
            key=settings.key_path,
            key_password=settings.key_password or None,
            cert=settings.cert_path,
            client_auth=settings.need_client_auth,
            verify_clients=settings.auth_client,
            trust=settings.trust_cert_path or None,
        )

    def _look(self) -> tuple[Seen, Seen, Seen]:
        settings = self._settings
        return (
            look(settings.key_path),
            look(settings.cert_path),
            look(settings.trust_cert_path),
        )

    @property
    def _has_files(self) -> bool:
        settings = self._settings
        return (
            settings.mode != tls.DISABLED
            and not settings.is_self_signed
            and bool(settings.key_path)
        )

    async def run(self) -> None:
        """Reads the files again when the trust file has changed, or key and certificate both have.
        [FileWatchService in NettyRemotingServer, BrokerController]"""
        while self._has_files:
            await trio.sleep(LOOK_EVERY)
            await self.look_again()

    async def look_again(self) -> None:
        """Looks at the files once."""
        found = await trio.to_thread.run_sync(self._look)
        key, cert, trust = (a != b for a, b in zip(found, self._used, strict=True))
        if trust or (key and cert):
            await self._reload(found)

    async def _reload(self, found: tuple[Seen, Seen, Seen]) -> None:
        try:
            await trio.to_thread.run_sync(self._use)
        except ConfigError as e:
            now = trio.current_time()
            if found != self._tried or now >= self._said_at + SAY_EVERY:
                self._said_at = now
                log.error(
                    "%s: the certificate stays as it was, as the new files cannot be used: %s",
                    self._name,
                    escape(e),
                )
            self._tried = found
        else:
            self._used, self._tried = found, None
            log.info("%s: new connections get the certificate that was changed", self._name)


def _check(settings: TlsServerSettings) -> None:
    """ConfigError for settings that contradict each other."""
    if settings.mode == tls.DISABLED or settings.is_self_signed:
        return
    has_key, has_cert = bool(settings.key_path), bool(settings.cert_path)
    if has_key != has_cert:
        missing = tls.SERVER_CERT if has_key else tls.SERVER_KEY
        raise ConfigError(f"{missing} is missing: a key and its certificate belong together")
    if settings.mode == tls.ENFORCING and not has_key:
        raise ConfigError(
            f"{tls.MODE}=enforcing needs {tls.SERVER_KEY} and {tls.SERVER_CERT}; for tests "
            f"{tls.TEST_MODE}=true makes a self-signed certificate"
        )
    if not has_key and settings.trust_cert_path:
        raise ConfigError(f"{tls.SERVER_TRUST} needs {tls.SERVER_KEY} and {tls.SERVER_CERT}")
    if settings.auth_client and settings.need_client_auth == "none":
        raise ConfigError(
            f"{tls.SERVER_AUTH_CLIENT}=true verifies nothing while clients are asked for no "
            f"certificate: set {tls.NEED_CLIENT_AUTH}=require (or optional)"
        )
