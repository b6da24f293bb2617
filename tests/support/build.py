"""Builders that several unit tests share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import trio

from pyrmq.engine import Store
from pyrmq.model.record import ReceivedMessage

LOG_FILE = 1 << 20
"""Commit-log file size of unit test stores, bytes."""


def open_store(root: Path, *, max_filter_bytes: int = 16_000) -> Store:
    """A small store; `max_filter_bytes` is how much of a queue one filtered read looks at."""
    return Store(root, commit_log_file_size=LOG_FILE, max_filter_bytes=max_filter_bytes)


class Deleting:
    """A store that notes which topics it deletes, and can fail to."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.deleted: list[str] = []
        self.failure: Exception | None = None

    def delete_topic(self, topic: str) -> list[tuple[int, int]]:
        self.deleted.append(topic)
        if self.failure is not None:
            raise self.failure
        return self._store.delete_topic(topic)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def received(offset: int, size: int = 0) -> ReceivedMessage:
    """A message at a queue offset with a body of `size` zero bytes."""
    return ReceivedMessage(
        topic="T",
        body=bytes(size),
        queue_id=0,
        queue_offset=offset,
        commit_log_offset=offset * 100,
        flag=0,
        sys_flag=0,
        born_timestamp=0,
        born_host="127.0.0.1:1",
        store_timestamp=0,
        store_host="127.0.0.1:2",
        reconsume_times=0,
        prepared_transaction_offset=0,
        store_size=91,
        body_crc=0,
        properties={},
        offset_msg_id="",
    )


class FakeConnection:
    """As much of a connection as tables keep: an identity and what to call at its end."""

    peer = "127.0.0.1:1"
    is_closed = False

    def __init__(self) -> None:
        self.on_close: dict[Callable[[FakeConnection], None], None] = {}

    def call_on_close(self, callback: Callable[[FakeConnection], None]) -> None:
        self.on_close[callback] = None

    def close(self) -> None:
        self.is_closed = True
        for call in list(self.on_close):
            call(self)


class Told:
    """Hears of changed topics, as a registration with name servers does."""

    def __init__(
        self,
        changed: Callable[[], object] = lambda: None,
        told: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint,
    ) -> None:
        self._changed = changed
        self._told = told

    def topics_changed(self) -> None:
        self._changed()

    async def told(self) -> None:
        await self._told()
