"""Requests about the KV configuration. [DefaultRequestProcessor]"""

from __future__ import annotations

import logging
from collections.abc import Awaitable

from pyrmq.engine import Command
from pyrmq.errors import QueryNotFoundError, ServiceNotAvailableError
from pyrmq.escape import escape
from pyrmq.namesrv import fields
from pyrmq.namesrv.kv import KvConfig
from pyrmq.net.command import Response
from pyrmq.net.connection import Connection

log = logging.getLogger(__name__)


class KvProcessor:
    def __init__(self, kv: KvConfig) -> None:
        self._kv = kv

    def put(self, connection: Connection, command: Command) -> Awaitable[Response]:
        """PUT_KV_CONFIG: answered when it is on disk."""
        return self._change(connection, command, fields.text(command, "value"))

    def delete(self, connection: Connection, command: Command) -> Awaitable[Response]:
        """DELETE_KV_CONFIG: a success as well where there is nothing to delete."""
        return self._change(connection, command, None)

    def _change(
        self, connection: Connection, command: Command, value: str | None
    ) -> Awaitable[Response]:
        namespace, key = fields.text(command, "namespace"), fields.text(command, "key")
        what = f"{connection.peer} {'deletes' if value is None else 'sets'} {key} in {namespace}"
        return self._changed(self._kv.change(namespace, key, value), what)

    async def _changed(self, change: Awaitable[bool], what: str) -> Response:
        try:
            if await change:
                log.info("KV configuration: %s", escape(what))
        except OSError as e:
            raise ServiceNotAvailableError(
                f"KV configuration cannot be saved: {e.strerror} ({e.filename}). Nothing is changed"
            ) from e
        return Response()

    def get(self, connection: Connection, command: Command) -> Response:
        """GET_KV_CONFIG."""
        namespace, key = fields.text(command, "namespace"), fields.text(command, "key")
        value = self._kv.get(namespace, key)
        if value is None:
            raise QueryNotFoundError(
                f"No config item, Namespace: {namespace[:255]} Key: {key[:255]}"
            )
        return Response(ext={"value": value})

    def all(self, connection: Connection, command: Command) -> Response:
        """GET_KVLIST_BY_NAMESPACE."""
        namespace = fields.text(command, "namespace")
        table = self._kv.table(namespace)
        if table is None:
            raise QueryNotFoundError(f"No config item, Namespace: {namespace[:255]}")
        return Response(body=table)
