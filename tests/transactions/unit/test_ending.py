"""END_TRANSACTION while the log is not written as far as the engine knows it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyrmq.engine import Listener, Session, Store, Transactions
from pyrmq.model.transaction import TransactionState
from pyrmq.txn.ending import Ender, EndTransaction
from pyrmq.txn.machine import Rules
from tests.store.tools import read_queue
from tests.support.records import decode_record
from tests.support.transactions import half_command, stored_half
from tests.support.wire import FrameReader, encode

TOPIC, GROUP, KEY = "Orders", "PG", "key-1"


class SlowDisk:
    """The engine, of which no copy can be read until what is staged is written."""

    def __init__(self, engine: Transactions) -> None:
        self._engine = engine
        self.staged = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def live(self, phys: int) -> int | None:
        return None if self.staged else self._engine.live(phys)

    def progress(self) -> Any:
        self.staged = False
        return self._engine.progress()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "store")
    store.set_topic(TOPIC, read_queues=1, write_queues=1)
    yield store
    store.close()


def test_a_copy_that_is_not_written_yet_is_settled(store: Store) -> None:
    """It cannot be read, but it waits: SUCCESS must not be answered for nothing."""
    engine = Transactions(store.native)
    listener = Listener(store.native, transactions=engine)
    session = Session(listener, bytes([127, 0, 0, 1]), 40_000)
    command = half_command(TOPIC, b"body", group=GROUP, key=KEY)
    (answer,) = FrameReader().feed(session.feed_bytes(encode(command), 0) or b"")
    half = stored_half(command, answer)
    engine.renew([half.queue_offset], True)
    ender = Ender(store, SlowDisk(engine), Rules(), lambda: 0)  # type: ignore[arg-type]
    record = engine.record(half.phys)
    assert record is not None
    request = EndTransaction(
        GROUP,
        decode_record(record).queue_offset,
        half.phys,
        TransactionState.COMMIT,
        True,
        KEY,
    )
    ender.end(request)
    assert [record.body for record in read_queue(store, TOPIC, 0)] == [b"body"]
    assert engine.before(1 << 50, 10) == []
    assert ender.repeated == 0
