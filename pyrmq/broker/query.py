"""Looking messages up, and deleting old files on command. [QueryMessageProcessor]"""

from __future__ import annotations

import trio

from pyrmq.broker import fields
from pyrmq.broker.config import BrokerConfig
from pyrmq.engine import Command, Store
from pyrmq.errors import QueryNotFoundError, ResponseError
from pyrmq.model.codes import ResponseCode
from pyrmq.net.command import Response
from pyrmq.net.connection import Connection

ROUNDS = 20
"""Rounds of retention that one command runs at most. [executeDeleteFilesManually]"""


QUERIES = 4
"""Look-ups at a time; they have their own threads, as one may read much of a cold disk."""


class QueryProcessor:
    def __init__(self, config: BrokerConfig, store: Store) -> None:
        self._threads = trio.CapacityLimiter(QUERIES)
        self._cleaning = trio.CapacityLimiter(1)
        self._config = config
        self._store = store

    async def query_message(self, connection: Connection, command: Command) -> Response:
        """QUERY_MESSAGE: the newest messages with a key, or with a unique key when the field
        `_UNIQUE_KEY_QUERY` says so. The body holds their records, oldest first."""
        topic, key = fields.text(command, "topic"), fields.text(command, "key")
        count = fields.int32(command, "maxNum")
        if fields.flag(command, "_UNIQUE_KEY_QUERY"):
            count = self._config.default_query_max_num
        begin = fields.int64(command, "beginTimestamp")
        end = fields.int64(command, "endTimestamp")
        slices, time, phys = await trio.to_thread.run_sync(
            self._store.query_message, topic, key, max(count, 1), begin, end, limiter=self._threads
        )
        if not slices:
            raise QueryNotFoundError("can not find message, maybe time range not correct")
        return Response(
            ext={"indexLastUpdateTimestamp": time, "indexLastUpdatePhyoffset": phys},
            body=slices,
        )

    async def view_message(self, connection: Connection, command: Command) -> Response:
        """VIEW_MESSAGE_BY_ID: the record at a physical offset."""
        offset = fields.int64(command, "offset")
        record = None
        if offset >= 0:
            record = await trio.to_thread.run_sync(
                self._store.record_at, offset, limiter=self._threads
            )
        if record is None:
            raise ResponseError(
                f"can not find message by the offset, {offset}", ResponseCode.SYSTEM_ERROR
            )
        return Response(body=record)

    async def delete_expired(self, connection: Connection, command: Command) -> Response:
        """DELETE_EXPIRED_COMMITLOG: files whose fileReservedTime is over go now, whatever the hour,
        and queues and index follow the log."""
        for _ in range(ROUNDS):
            deleted = await trio.to_thread.run_sync(
                lambda: self._store.clean(manual=True), limiter=self._cleaning
            )
            if not any(deleted.values()):
                break
        return Response()

    async def clean_queues(self, connection: Connection, command: Command) -> Response:
        """CLEAN_EXPIRED_CONSUMEQUEUE: files of queues and index that only know of messages that
        are gone are deleted."""
        await trio.to_thread.run_sync(lambda: self._store.clean(log=False), limiter=self._cleaning)
        return Response()
