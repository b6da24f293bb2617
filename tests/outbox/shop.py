"""What the tests work on: a table of orders beside the outbox, messages, and a producer that only
does what the listener sees of one."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import trio
from sqlalchemy import (
    Column,
    Connection,
    Engine,
    Integer,
    MetaData,
    String,
    Table,
    create_engine,
    event,
    insert,
    select,
)
from sqlalchemy.orm import Session

from pyrmq.model.message import Message, MessageQueue, SendStatus
from pyrmq.model.record import ReceivedMessage
from pyrmq.model.transaction import TransactionState
from pyrmq.outbox import OUTBOX, Outbox, create_table
from pyrmq.outbox.fence import IDENTITY

SECONDS = 30.0
"""Longest wait for another thread or process."""

shop = MetaData()
ORDERS = Table(
    "orders",
    shop,
    Column("id", String(64), primary_key=True),
    Column("amount", Integer, nullable=False),
)


class Database:
    """One database with its tables; engines made by `engine` are disposed at the end."""

    def __init__(
        self,
        url: str,
        url_through: Callable[[str, int], str] | None = None,
        wal: bool = False,
        identity: str = "shop",
    ) -> None:
        self._identity = identity
        self.url = url
        self.url_through = url_through
        self.postgresql = url.startswith("postgresql")
        self._wal = wal
        self._engines: list[Engine] = []

    def __enter__(self) -> Self:
        engine = self.engine()
        create_table(engine)
        shop.create_all(engine)
        with engine.begin() as connection:
            connection.execute(insert(OUTBOX).values(identity_row(self._identity)))
        if self._wal:
            with engine.connect() as connection:
                connection.exec_driver_sql("PRAGMA journal_mode=WAL")
        self._own = engine
        return self

    def __exit__(self, *_: object) -> None:
        for engine in self._engines:
            engine.dispose()

    def engine(self, url: str | None = None, **options: Any) -> Engine:
        made = create_engine(url or self.url, **options)
        self._engines.append(made)
        return made

    def outbox(self, work: Any = None, *, engine: Engine | None = None, **options: Any) -> Outbox:
        """With an engine of its own, as another process would have; waits are short."""
        return Outbox(engine or self.engine(), work, **{"lock_timeout": 0.05, **options})

    def orders(self) -> set[str]:
        with self._own.connect() as connection:
            return set(connection.scalars(select(ORDERS.c.id)))

    def rows(self) -> dict[str, str]:
        """The outbox as {transaction id: state}."""
        with self._own.connect() as connection:
            query = select(OUTBOX.c.transaction_id, OUTBOX.c.state).where(
                OUTBOX.c.transaction_id != IDENTITY
            )
            return dict(connection.execute(query).all())

    def run(self, statement: Any) -> None:
        with self._own.begin() as connection:
            connection.execute(statement)


def identity_row(identity: str) -> dict[str, object]:
    """What makes an outbox table known by a name. Halves of `message` are of the outbox `shop`."""
    row = {"transaction_id": IDENTITY, "state": "ROLLBACK", "topic": identity}
    return {**row, "created": 2**63 - 1}


def place_order(session: Session, message: Message, arg: object) -> None:
    """Work that writes one order, named by the message's transaction id."""
    session.execute(insert(ORDERS).values(id=message.properties["UNIQ_KEY"], amount=1))


def message(key: str | None = None, outbox: str = "shop") -> Message:
    """As it comes to the listener, with its UNIQ_KEY and the identity of its outbox."""
    properties = {"UNIQ_KEY": key or uuid.uuid4().hex, "PYRMQ_OUTBOX": outbox}
    return Message("Orders", b"order", keys=["k1", "k2"], properties=properties)


def received(sent: Message, born: float | None = None) -> ReceivedMessage:
    """The half of a message, as a check brings it; born now unless a time is given."""
    return ReceivedMessage(
        topic=sent.topic,
        body=sent.body,
        queue_id=0,
        queue_offset=7,
        commit_log_offset=4096,
        flag=0,
        sys_flag=0,
        born_timestamp=int((time.time() if born is None else born) * 1000),
        born_host="127.0.0.1:1",
        store_timestamp=0,
        store_host="127.0.0.1:2",
        reconsume_times=0,
        prepared_transaction_offset=0,
        store_size=0,
        body_crc=0,
        properties=sent.all_properties(),
        offset_msg_id="00",
    )


@dataclass
class FakeResult:
    status: SendStatus
    msg_id: str
    local_state: TransactionState
    error: Exception | None = None


class FakeProducer:
    """send_in_transaction without a broker; `ended` has what END_TRANSACTION would say."""

    def __init__(self, listener: Any, status: SendStatus = SendStatus.SEND_OK) -> None:
        self.listener = listener
        self.status = status
        self.ended: list[TransactionState] = []
        self.options: dict[str, object] = {}
        self.queue = MessageQueue("Orders", "broker-a", 0)

    async def send_in_transaction(
        self, message: Message, arg: object = None, **options: object
    ) -> FakeResult:
        self.options = options
        key = message.properties.setdefault("UNIQ_KEY", uuid.uuid4().hex)
        state = TransactionState.ROLLBACK
        if self.status is SendStatus.SEND_OK:
            execute = self.listener.execute_local_transaction
            state = await trio.to_thread.run_sync(execute, message, arg)
        self.ended.append(state)
        return FakeResult(self.status, key, state)


class Gate:
    """A place where a thread stops until it is let on; `reached` says that it is there."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._open = threading.Event()

    def stop_here(self) -> None:
        self.reached.set()
        assert self._open.wait(SECONDS), "nobody opened the gate"

    def wait(self) -> None:
        assert self.reached.wait(SECONDS), "nobody came to the gate"

    def open(self) -> None:
        self._open.set()


@contextmanager
def on_commit(engine: Engine, action: Callable[[Connection], None]) -> Iterator[None]:
    """Calls `action` before each COMMIT of this engine."""
    event.listen(engine, "commit", action)
    try:
        yield
    finally:
        event.remove(engine, "commit", action)
