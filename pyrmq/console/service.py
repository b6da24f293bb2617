"""Serves the console over HTTP: hypercorn on trio."""

from __future__ import annotations

import logging
import ssl
from dataclasses import replace
from pathlib import Path
from typing import Any

import trio
from hypercorn.config import Config
from hypercorn.logging import Logger
from hypercorn.typing import ASGIFramework

from pyrmq.console.app import console_app
from pyrmq.console.http import HttpServer
from pyrmq.console.settings import Settings
from pyrmq.errors import ConfigError
from pyrmq.escape import escape
from pyrmq.net.address import Address, format_address, is_loopback
from pyrmq.net.server.listen import open_listeners

log = logging.getLogger(__name__)

HEADERS_BOUND = 32 << 10
"""Longest head of a request, bytes."""
KEEP_ALIVE = 60.0
"""Seconds for which a connection without a (whole) request stays open."""


class ConsoleService:
    """The console, listening from the start. ConfigError if it cannot be as the settings say."""

    def __init__(self, settings: Settings) -> None:
        settings.check()
        config = self._config = Config()
        _tls(config, settings.cert, settings.key)
        host, port = settings.bind
        try:
            self._sockets = open_listeners(host, port)
        except ConfigError as e:
            raise ConfigError(f"{e}; --bind chooses another address") from e
        address = self._sockets[0].getsockname()
        self.address: Address = (host, address[1])
        self._settings = replace(settings, bind=self.address)
        try:
            app: ASGIFramework = console_app(self._settings)  # type: ignore[assignment]
        except BaseException:
            for sock in self._sockets:
                sock.close()
            raise
        self._server = HttpServer(app, config, self._sockets)
        config.accesslog, config.errorlog, config.logger_class = None, log, _Lines
        config.alpn_protocols = ["http/1.1"]
        config.include_server_header = False
        config.h11_max_incomplete_size = HEADERS_BOUND
        config.keep_alive_timeout = KEEP_ALIVE
        if not is_loopback(host) and not self._settings.secure:
            log.warning(
                "the console listens on %s without TLS: whoever can read the network reads "
                "passwords and cookies; give --cert, or --url of a proxy that has TLS",
                escape(format_address(self.address)),
            )

    @property
    def url(self) -> str:
        """What to open in a browser."""
        scheme = "https" if self._settings.cert is not None else "http"
        return self._settings.url or f"{scheme}://{format_address(self.address)}"

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serves until it is stopped or cancelled; then requests that have begun may end."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._until_cancelled)
            with trio.CancelScope(shield=True):
                await self._server.run(task_status=task_status)
            nursery.cancel_scope.cancel()

    def stop(self) -> None:
        """Takes no more requests."""
        self._server.stop()

    async def _until_cancelled(self) -> None:
        try:
            await trio.sleep_forever()
        finally:
            self.stop()


class _Lines(Logger):
    """What hypercorn logs, without its greeting."""

    async def info(self, message: str, *args: Any, **kwargs: Any) -> None:
        log.debug("%s", escape(message))


def _tls(config: Config, cert: Path | None, key: Path | None) -> None:
    if cert is None:
        return
    config.certfile, config.keyfile = str(cert), str(key or cert)
    try:
        config.create_ssl_context()
    except (OSError, ssl.SSLError) as e:
        raise ConfigError(f"--cert {escape(cert)}: {escape(e)}") from e
