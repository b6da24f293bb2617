"""Looking messages up, and deleting old files on command. [QueryMessageProcessor]"""

from __future__ import annotations

from pyrmq.broker.bounds import Bounded
from pyrmq.broker.config.broker_config import LiveConfig
from pyrmq.broker.requests import fields
from pyrmq.engine import Command, Store
from pyrmq.errors import QueryNotFoundError, ResponseError
from pyrmq.model.codes import ResponseCode
from pyrmq.net.command import Response
from pyrmq.net.server.answers import Elsewhere
from pyrmq.net.server.connection import Connection

PASSES = 20
"""Passes of retention that one command runs at most. [executeDeleteFilesManually]"""
QUERIES, QUERIES_WAITING = 4, 64
"""Look-ups by key at a time, as one may read much of a cold disk; how many more may wait."""
VIEWS, VIEWS_WAITING = 4, 256
"""The same of single messages."""
CLEANING_WAITING = 8
"""Commands to clean that may wait for the one under way."""


class QueryProcessor:
    def __init__(self, config: LiveConfig, store: Store) -> None:
        self._queries = Bounded("queries by key", QUERIES, QUERIES_WAITING)
        self._views = Bounded("look-ups by message id", VIEWS, VIEWS_WAITING)
        self._cleaning = Bounded("commands to delete old files", 1, CLEANING_WAITING)
        self._config = config
        self._store = store

    @property
    def line(self) -> Bounded:
        """Queries by key."""
        return self._queries

    def query_message(self, connection: Connection, command: Command) -> Elsewhere:
        """QUERY_MESSAGE: the newest messages with a key, or with a unique key when the field
        `_UNIQUE_KEY_QUERY` says so. The body holds their records, oldest first."""
        topic, key = fields.text(command, "topic"), fields.text(command, "key")
        count = fields.int32(command, "maxNum")
        if fields.flag(command, "_UNIQUE_KEY_QUERY"):
            count = self._config.now.default_query_max_num
        begin = fields.int64(command, "beginTimestamp")
        end = fields.int64(command, "endTimestamp")
        return self._queries.begin(self._query(topic, key, max(count, 1), begin, end))

    async def _query(self, topic: str, key: str, count: int, begin: int, end: int) -> Response:
        slices, time, phys = await self._queries.run(
            self._store.query_message, topic, key, count, begin, end
        )
        if not slices:
            raise QueryNotFoundError(
                f"can not find message, maybe time range not correct: key {key[:64]!r} of "
                f"topic[{topic[:255]}]"
            )
        return Response(
            ext={"indexLastUpdateTimestamp": time, "indexLastUpdatePhyoffset": phys},
            body=slices,
        )

    def view_message(self, connection: Connection, command: Command) -> Elsewhere:
        """VIEW_MESSAGE_BY_ID: the record at a physical offset."""
        return self._views.begin(self._view(fields.int64(command, "offset")))

    async def _view(self, offset: int) -> Response:
        record = None
        if offset >= 0:
            record = await self._views.run(self._store.record_at, offset)
        if record is None:
            raise ResponseError(
                f"can not find message by the offset, {offset}", ResponseCode.SYSTEM_ERROR
            )
        return Response(body=record)

    def delete_expired(self, connection: Connection, command: Command) -> Elsewhere:
        """DELETE_EXPIRED_COMMITLOG: files whose fileReservedTime is over go now, whatever the hour,
        and queues and index follow the log."""
        return self._cleaning.begin(self._delete())

    async def _delete(self) -> Response:
        for _ in range(PASSES):
            deleted = await self._cleaning.run(lambda: self._store.clean(manual=True))
            if not any(deleted.values()):
                break
        return Response()

    def clean_queues(self, connection: Connection, command: Command) -> Elsewhere:
        """CLEAN_EXPIRED_CONSUMEQUEUE: files of queues and index that only know of messages that
        are gone are deleted."""
        return self._cleaning.begin(self._clean())

    async def _clean(self) -> Response:
        await self._cleaning.run(lambda: self._store.clean(log=False))
        return Response()
