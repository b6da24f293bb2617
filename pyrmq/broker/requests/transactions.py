"""Transactions in the broker: their requests, the producers to ask, and what files keep of them.

`pyrmq.txn` decides; this module gives it the broker's connections and tables.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyrmq.broker.config.broker_config import BrokerConfig
from pyrmq.broker.opening import HOUR
from pyrmq.broker.requests import fields
from pyrmq.broker.tables.clients import ClientTable
from pyrmq.broker.tables.config_file import PersistentTable
from pyrmq.broker.tables.offsets import OffsetTable
from pyrmq.broker.tables.topic_creation import Topics
from pyrmq.engine import Command, Store, Transactions
from pyrmq.errors import InvalidParameterError, ResponseError, TransactionConflictError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.codes import ResponseCode
from pyrmq.model.names import CHECK_MAX_TOPIC, HALF_TOPIC, OP_TOPIC, TRANSACTION_GROUP
from pyrmq.model.topic import DataVersion
from pyrmq.model.transaction import TransactionState
from pyrmq.net.address import offset_of_message_id
from pyrmq.net.clock import now_ms
from pyrmq.net.command import Response
from pyrmq.net.server.answers import WhenConfirmed
from pyrmq.net.server.connection import Connection
from pyrmq.net.server.connection_state import State
from pyrmq.txn import Rules, TransactionService
from pyrmq.txn.checking import BUSY, PickedProducer
from pyrmq.txn.ending import EndTransaction

log = logging.getLogger(__name__)


def open_transactions(config: BrokerConfig, store: Store, offsets: OffsetTable) -> Transactions:
    """Finds what waits; blocking while it reads the half and the op topic."""

    def kept(topic: str) -> int:
        offset = offsets.query(topic, TRANSACTION_GROUP, 0)
        return -1 if offset is None else offset

    return Transactions(
        store.native,
        half_offset=kept(HALF_TOPIC),
        op_offset=kept(OP_TOPIC),
        max_op_body=config.transaction_op_msg_max_size,
        max_pending=config.transaction_max_pending_halves,
    )


def keep_progress(offsets: OffsetTable, half: int, op: int) -> None:
    """Keeps how far all transactions are settled: the next offsets in the half and op topics."""
    offsets.keep(HALF_TOPIC, TRANSACTION_GROUP, 0, half)
    offsets.keep(OP_TOPIC, TRANSACTION_GROUP, 0, op)


def rules(config: BrokerConfig) -> Rules:
    """The times by which halves are judged, of a configuration."""
    kept = config.file_reserved_time * HOUR
    return Rules(
        transaction_time_out=config.transaction_time_out,
        transaction_check_interval=config.transaction_check_interval,
        transaction_check_max=config.transaction_check_max,
        # Discarded before its file may be deleted.
        file_reserved_time=max(kept - 2 * config.transaction_check_interval, kept // 2),
    )


class ProducerChoice:
    """Picks the producer of a group to ask: its producers take turns.
    [ProducerManager.getAvailableChannel]

    `may_see`: whether who is connected may have messages of a topic. Anyone may say to be a
    producer of any group, and a question has the whole half message."""

    def __init__(
        self,
        clients: ClientTable,
        may_see: Callable[[Connection, str], bool] = lambda connection, topic: True,
    ) -> None:
        self._clients = clients
        self._may_see = may_see

    def _connected(self, group: str, topic: str) -> list[Connection]:
        return [
            c
            for c in self._clients.producers.get(group, ())
            if c.state is State.OPEN and self._may_see(c, topic)
        ]

    def reachable(self, group: str, topic: str) -> bool:
        return bool(self._connected(group, topic))

    def pick(self, group: str, topic: str, turn: int) -> PickedProducer:
        producers = self._connected(group, topic)
        for i in range(len(producers)):
            connection = producers[(turn + i) % len(producers)]
            if connection.takes_requests:
                return connection.send
        return BUSY if producers else None


class TransactionProcessor:
    def __init__(self, service: TransactionService) -> None:
        self._service = service

    def end(self, connection: Connection, command: Command) -> WhenConfirmed | None:
        """END_TRANSACTION that the engine did not settle by itself. Clients send it one-way, so
        what is refused is logged."""
        try:
            return self._end(command)
        except TransactionConflictError as e:
            log.error(
                "END_TRANSACTION from %s: %s",
                connection.peer,
                escape(e),
                extra=about(connection=connection.peer),
            )
            raise
        except ResponseError as e:
            log.warning(
                "END_TRANSACTION from %s refused: %s",
                connection.peer,
                escape(e),
                extra=about(connection=connection.peer),
            )
            raise

    def _end(self, command: Command) -> WhenConfirmed | None:
        asked = fields.int32(command, "commitOrRollback")
        try:
            word = TransactionState(asked)
        except ValueError:
            raise ResponseError(
                f"commitOrRollback {asked} is unknown: 0, 8 or 12 expected",
                ResponseCode.SYSTEM_ERROR,
            ) from None
        durable = self._service.ender.end(
            EndTransaction(
                producer_group=fields.text(command, "producerGroup"),
                tran_state_table_offset=fields.int64(command, "tranStateTableOffset"),
                commit_log_offset=fields.int64(command, "commitLogOffset"),
                commit_or_rollback=word,
                from_transaction_check=fields.flag(command, "fromTransactionCheck"),
                msg_id=command.ext.get("msgId", ""),
                transaction_id=command.ext.get("transactionId", ""),
            )
        )
        return None if durable is None else WhenConfirmed(Response(), durable)

    def resume(self, connection: Connection, command: Command) -> WhenConfirmed:
        """RESUME_CHECK_HALF_MESSAGE: a message that was discarded is asked about again."""
        text = fields.text(command, "msgId")
        phys = offset_of_message_id(text)
        if phys is None:
            raise InvalidParameterError(f"msgId {text[:64]!r} is no offset id of 32 or 56 digits")
        return WhenConfirmed(Response(), self._service.ender.resume(phys))


async def make_overflow_topic(topics: Topics) -> None:
    """TRANS_CHECK_MAX_TIME_TOPIC exists before something is discarded."""
    topics.creation.create_send_back(CHECK_MAX_TOPIC, 1)
    if not topics.table.is_saved(CHECK_MAX_TOPIC):
        await topics.table.saved(CHECK_MAX_TOPIC)


class TransactionMetrics(PersistentTable):
    """How many halves wait, by real topic: config/transactionMetrics. [TransactionMetrics]"""

    def __init__(self, path: Path, engine: Transactions) -> None:
        super().__init__(path)
        self._engine = engine
        self._written: list[tuple[str, int]] | None = None
        self.version = DataVersion.from_json(
            self.load("dataVersion", "transactionCount").get("dataVersion")
        )

    async def save_if_changed(self) -> None:
        """Writes the file if the figures are others than those in it."""
        self._count_pending()
        await super().save_if_changed()

    def _count_pending(self) -> None:
        figures = sorted(self._engine.pending_by_topic())
        if figures != self._written:
            self._written = figures
            self.version.next(now_ms())
            self.changed()

    def to_json(self) -> dict[str, Any]:
        now = now_ms()
        counts = self._written or []
        return {
            "dataVersion": self.version.to_json(),
            "transactionCount": {t: {"count": n, "timeStamp": now} for t, n in counts},
        }
