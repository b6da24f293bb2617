"""The listener of a TransactionalProducer that answers from an outbox table."""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import trio
from sqlalchemy import Engine, Table, delete, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from pyrmq.client import TransactionalProducer, TransactionSendResult
from pyrmq.errors import ClientError, ConfigError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.message import Message
from pyrmq.model.properties import KEYS, UNIQ_KEY
from pyrmq.model.record import ReceivedMessage
from pyrmq.model.transaction import OUTBOX_ID, TransactionState
from pyrmq.outbox.fence import IDENTITY, MAX_ID, OUTBOX, Fence

log = logging.getLogger(__name__)

KEEP = timedelta(days=4)
"""How long rows are kept. A broker asks about a half until the half is older than fileReservedTime
(72 hours by default); the rest allows for different clocks."""
LEAST_KEEP = timedelta(minutes=10)
"""With RocketMQ's settings a broker that reaches the group asks for 6 s + 15 x 30 s."""
CLOCKS = 0.9
"""When a half has passed this share of the time, its row may have been pruned."""

Work = Callable[[Session, Message, Any], object]
"""The local transaction: it writes through the session, returns to commit, and raises to roll
back."""


@dataclass(slots=True)
class _Call:
    """The `arg` of a producer's call, by which `send` learns the outcome of the work."""

    arg: Any
    since: int
    """Before the half was sent, or its work was called; ms since 1970."""
    state: TransactionState | None = None
    error: Exception | None = None


def _call_arg(session: Session, message: Message, arg: Any) -> object:
    if not callable(arg):
        raise ClientError(
            f"arg is {arg!r:.80}: without `work` the outbox calls it with the session"
        )
    return arg(session)


class Outbox:
    """A TransactionListener over one database.

    work: called with session, message and arg; without it `arg` itself is called with the session.
    session: makes sessions, such as a `sessionmaker`; it is called with `bind` and
    `join_transaction_mode`.
    lock_timeout: seconds that a check waits for a local transaction that is still running.
    keep: how long rows are kept, more than the broker's fileReservedTime; the same for all users of
    a table.
    clock: seconds since 1970.

    All producers of a group must use the same database and table, because a broker asks any of
    them. Each half has the identity of its table in the property PYRMQ_OUTBOX; the identity is a
    row of the table. Another outbox that is asked about it answers UNKNOWN and logs an error.
    """

    def __init__(
        self,
        engine: Engine,
        work: Work | None = None,
        *,
        table: Table = OUTBOX,
        session: Callable[..., Session] = Session,
        lock_timeout: float = 1.0,
        keep: timedelta = KEEP,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if keep < LEAST_KEEP:
            raise ConfigError(
                f"keep={keep}: rows are needed for {LEAST_KEEP} at least, and for longer than the "
                "broker's fileReservedTime (72 hours) if nobody of the group is there to be asked"
            )
        for name in ("binds", "twophase"):
            if getattr(session, "kw", {}).get(name):
                raise ConfigError(
                    f"the sessionmaker has {name}: the outbox needs all work in one transaction "
                    "of its own engine"
                )
        self._fence = Fence(engine, table, lock_timeout, clock)
        self._keep_ms = keep // timedelta(milliseconds=1)
        self._running: set[str] = set()
        self._identity: str | None = None
        self._work = work or _call_arg
        self._session = session

    async def send(
        self,
        producer: TransactionalProducer,
        message: Message,
        arg: Any = None,
        **options: Any,
    ) -> TransactionSendResult:
        """`send_in_transaction(message, arg, **options)` of a producer whose listener is this
        outbox.

        Returns its result when the local transaction has committed; the message is then delivered
        at least once. If the work raised, the transaction was rolled back and `send` raises the
        same error. A database error during the commit is raised too, with a note that the outcome
        is open; the check decides it.
        """
        # Here as well as in the producer, whose listener may hand its calls on to this one.
        properties = message.properties | await self.half_properties()
        message = replace(message, properties=properties)
        call = _Call(arg, self._fence.now())
        result = await producer.send_in_transaction(message, call, **options)
        if call.state is TransactionState.COMMIT:
            return result
        error = call.error or result.error
        if error is None:
            raise ClientError(
                "the local transaction was not run: the half message was not stored safely "
                f"({result.status.name}), or the producer's listener is another one"
            )
        if call.state is TransactionState.UNKNOWN:
            error.add_note(f"transaction {result.msg_id} is open: the check decides it")
        raise error

    def execute_local_transaction(self, message: Message, arg: object) -> TransactionState:
        """Runs the work and inserts the row in one SQL transaction."""
        call = arg if isinstance(arg, _Call) else _Call(arg, self._fence.now())
        key, keys = _identity(message.all_properties())
        self._running.add(key)
        try:
            self._run(key, keys, message, call)
            call.state = TransactionState.COMMIT
        except Exception as error:
            call.error = error
            # Not all that raises has rolled back: an answer to COMMIT may have been lost, or the
            # work has committed by itself. The row knows.
            call.state = self._decide(key, message.topic, keys, self._kept(call.since))
            if call is not arg:
                log.warning(
                    "local transaction %s: %s",
                    escape(key),
                    call.state,
                    exc_info=error,
                    extra=about(transaction=key),
                )
        finally:
            self._running.discard(key)
        return call.state

    async def half_properties(self) -> dict[str, str]:
        """The properties that a producer adds to each half of this outbox. The first call asks the
        database. Raises SQLAlchemyError."""
        if self._identity is None:
            await trio.to_thread.run_sync(self._own_identity)
        return {OUTBOX_ID: self._own_identity()}

    def _own_identity(self) -> str:
        if self._identity is None:
            self._identity = self._fence.identity()
        return self._identity

    def check_local_transaction(self, message: ReceivedMessage) -> TransactionState:
        """The outcome of the transaction; after ROLLBACK it can no longer commit.

        A missing row means nothing if the half is so old that the row may have been pruned, or if
        the half names no outbox, because it may belong to another one.
        """
        key, keys = _identity(message.properties)
        if key in self._running:  # it may wait for a connection or a lock and have no row yet
            return TransactionState.UNKNOWN
        whose = message.properties.get(OUTBOX_ID)
        if whose is not None and not self._is_own(key, whose):
            return TransactionState.UNKNOWN
        kept = self._kept(message.born_timestamp)
        state = self._decide(key, message.topic, keys, kept and whose is not None)
        if state is TransactionState.UNKNOWN and not kept:
            log.error(
                "transaction %s is too old to have a row for sure: decide it by hand",
                escape(key),
                extra=about(transaction=key),
            )
        elif state is TransactionState.UNKNOWN and whose is None:
            log.error(
                "transaction %s has no row here, and its half does not say whose outbox has one "
                "(no %s: it was sent by pyrmq 0.1 or by another client): answered UNKNOWN",
                escape(key),
                escape(OUTBOX_ID),
                extra=about(transaction=key),
            )
        log.info("check of transaction %s: %s", escape(key), state, extra=about(transaction=key))
        return state

    def prune(self, *, batch: int = 500) -> int:
        """Deletes rows older than `keep`, `batch` of them per SQL transaction, and returns their
        number. It blocks."""
        if batch < 1:
            raise ConfigError(f"batch={batch}: at least 1 row")
        table, engine = self._fence.table, self._fence.engine
        before = self._fence.now() - self._keep_ms
        old = select(table.c.transaction_id).where(table.c.created < before)
        deleted = 0
        while True:
            with engine.connect() as connection:
                ids = connection.scalars(old.order_by(table.c.created).limit(batch)).all()
            if ids:
                with engine.begin() as connection:
                    gone = connection.execute(delete(table).where(table.c.transaction_id.in_(ids)))
                    deleted += gone.rowcount
            if len(ids) < batch:
                return deleted

    def _is_own(self, key: str, whose: str) -> bool:
        try:
            own = self._own_identity()
        except SQLAlchemyError as e:
            log.warning(
                "transaction %s is not decided yet: %s",
                escape(key),
                escape(_reason(e)),
                extra=about(transaction=key),
            )
            return False
        if whose != own:
            log.error(
                "asked about transaction %s of another outbox (identity %s, this one is %s): "
                "answered UNKNOWN. All producers of a group need the same database and table: give "
                "the producers on each database a group of their own",
                escape(key),
                escape(whose[:80]),
                escape(own),
                extra=about(transaction=key),
            )
        return whose == own

    def _kept(self, since: int) -> bool:
        """Whether no row that was written after this time has been pruned."""
        return self._fence.now() - since < self._keep_ms * CLOCKS

    def _run(self, key: str, keys: str | None, message: Message, call: _Call) -> None:
        """Returns when the SQL transaction has committed.

        The session joins the connection's transaction: its `commit` only flushes, and its
        `rollback` rolls everything back, after which the connection refuses further work.
        """
        with self._fence.engine.connect() as connection, connection.begin() as transaction:
            self._fence.begin(connection, key, message.topic, keys)
            if not self._kept(call.since):
                raise ClientError(f"transaction {key} begins so late that it may be decided")
            with self._session(bind=connection, join_transaction_mode="rollback_only") as session:
                returned = self._work(session, message, call.arg)
                if inspect.iscoroutine(returned):
                    returned.close()
                    raise ClientError("the work is an async function; SQL needs a plain one")
                session.commit()
            if not transaction.is_active:
                raise ClientError(f"the work ended the SQL transaction {key} itself")
            self._fence.confirm(connection, key)

    def _decide(self, key: str, topic: str, keys: str | None, complete: bool) -> TransactionState:
        try:
            return self._fence.decide(key, topic, keys, complete)
        except SQLAlchemyError as e:
            log.warning(
                "transaction %s is not decided yet: %s",
                escape(key),
                escape(_reason(e)),
                extra=about(transaction=key),
            )
        except Exception:
            log.exception(
                "transaction %s is not decided yet", escape(key), extra=about(transaction=key)
            )
        return TransactionState.UNKNOWN


def _reason(error: SQLAlchemyError) -> str:
    return str(getattr(error, "orig", None) or error).partition("\n")[0]


def _identity(properties: Mapping[str, str]) -> tuple[str, str | None]:
    """Transaction id and keys of a message."""
    key = properties.get(UNIQ_KEY, "")
    if not key or len(key) > MAX_ID or "\0" in key or key == IDENTITY:
        raise ClientError(f"the message has no usable {UNIQ_KEY}: {key!r:.80}")
    return key, properties.get(KEYS, "").replace("\0", " ") or None
