"""How a slave speaks TLS with its master's HA port: by the keys of its other connections."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from pyrmq.engine import TlsClient
from pyrmq.errors import ConfigError
from pyrmq.escape import escape
from pyrmq.net.client.tls import Tls
from pyrmq.net.client.tls_authorities import system_files

log = logging.getLogger(__name__)


class HaTls:
    """`now` reads the files for each connection. While changed files are invalid, the old ones
    stay in use."""

    def __init__(self, tls: Tls, system: Callable[[], list[Path]] | None = None) -> None:
        self._tls = tls
        self._system = system or system_files
        self._latest: TlsClient | None = None

    def now(self) -> TlsClient:
        """Blocking. ConfigError if the files cannot be used and there are no old ones."""
        tls = self._tls
        try:
            self._latest = TlsClient(
                trust=tls.ca,
                system=[] if tls.ca is not None or tls.insecure else self._system(),
                insecure=tls.insecure,
                cert=tls.cert,
                key=tls.key,
                key_password=tls.key_password,
            )
        except ConfigError as e:
            if self._latest is None:
                raise
            log.warning("replication: TLS goes on with the old files: %s", escape(e))
        return self._latest
