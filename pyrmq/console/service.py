"""Serves the console over HTTP: hypercorn on trio."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

import trio
from hypercorn.config import Config
from hypercorn.trio import serve

from pyrmq.console.app import console_app
from pyrmq.console.settings import Settings
from pyrmq.errors import ConfigError
from pyrmq.net.address import Address, format_address
from pyrmq.net.server.listen import open_listeners

log = logging.getLogger(__name__)

HEADERS_BOUND = 32 << 10
"""Longest head of a request, bytes."""
KEEP_ALIVE = 60.0
"""Seconds for which a connection without a request stays open."""
STOP = 3.0
"""Seconds that requests have to end in when the console stops."""


class ConsoleService:
    """The console, listening from the start. ConfigError if it cannot listen."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._config = Config()
        _tls(self._config, settings.cert, settings.key)
        host, port = settings.bind
        try:
            self._sockets = open_listeners(host, port)
        except ConfigError as e:
            raise ConfigError(f"{e}; --bind chooses another address") from e
        self.address: Address = self._sockets[0].getsockname()[:2]
        self._app = console_app(settings)

    @property
    def url(self) -> str:
        """What to open in a browser."""
        scheme = "https" if self._settings.cert is not None else "http"
        return self._settings.url or f"{scheme}://{format_address(self.address)}"

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serves until cancelled."""
        config = self._config
        config.bind = [f"fd://{sock.detach()}" for sock in self._sockets]
        config.accesslog, config.errorlog = None, log
        config.include_server_header = False
        config.h11_max_incomplete_size = HEADERS_BOUND
        config.keep_alive_timeout = KEEP_ALIVE
        config.graceful_timeout = STOP
        async with trio.open_nursery() as nursery:
            await nursery.start(serve, self._app, config)
            task_status.started()


def _tls(config: Config, cert: Path | None, key: Path | None) -> None:
    if cert is None:
        return
    config.certfile, config.keyfile = str(cert), str(key or cert)
    try:
        config.create_ssl_context()
    except (OSError, ssl.SSLError) as e:
        raise ConfigError(f"--tls-cert {cert}: {e}") from e
