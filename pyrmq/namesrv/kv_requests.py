"""Requests about the KV configuration. [DefaultRequestProcessor]"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable
from pathlib import Path

from pyrmq.engine import Command
from pyrmq.errors import InvalidParameterError, QueryNotFoundError, ServiceNotAvailableError
from pyrmq.escape import escape
from pyrmq.model.route import MAX_ROUTE_QUEUES
from pyrmq.namesrv import fields, names
from pyrmq.namesrv.kv import ORDER_TOPIC_CONFIG, KvConfig
from pyrmq.net.command import Response
from pyrmq.net.server.connection import Connection

log = logging.getLogger(__name__)


_ORDER = re.compile(r"([^:;]{1,255}):([0-9]{1,9})")


def check_order(value: str) -> None:
    """InvalidParameterError for what is no order configuration: clients build their queues from
    it, and fail on another form, each in its own way."""
    brokers = set()
    for part in value.split(";"):
        found = _ORDER.fullmatch(part)
        if found is None or not 0 < int(found[2]) <= MAX_ROUTE_QUEUES:
            raise InvalidParameterError(
                f"order configuration {value[:64]!r}: broker:number of queues expected, several "
                f"separated by a semicolon, such as broker-a:8;broker-b:8 (1 to {MAX_ROUTE_QUEUES})"
            )
        names.check_name("order configuration: broker", found[1])
        if found[1] in brokers:
            raise InvalidParameterError(f"order configuration: broker {found[1]!r} is named twice")
        brokers.add(found[1])


class KvProcessor:
    def __init__(self, kv: KvConfig) -> None:
        self._kv = kv

    def put(self, connection: Connection, command: Command) -> Awaitable[Response]:
        """PUT_KV_CONFIG: answered when it is on disk."""
        value = fields.text(command, "value")
        if fields.text(command, "namespace") == ORDER_TOPIC_CONFIG:
            names.check_topic(fields.text(command, "key"))
            check_order(value)
        return self._change(connection, command, value)

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
            log.error("KV configuration cannot be saved: %s", escape(e))
            file = Path(str(e.filename)).name
            raise ServiceNotAvailableError(
                f"KV configuration cannot be saved: {e.strerror} ({file}). Nothing is changed"
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
