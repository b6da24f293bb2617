"""Transactions: states of a local transaction, properties of a half. [LocalTransactionState,
MessageConst]"""

from __future__ import annotations

from enum import IntEnum

TRAN_MSG = "TRAN_MSG"
"""`true` makes a sent message a half message."""
PRODUCER_GROUP = "PGROUP"
REAL_TOPIC = "REAL_TOPIC"
REAL_QUEUE_ID = "REAL_QID"
TRANSACTION_ID = "__transactionId__"
CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
"""How often its producer was asked about a half."""
CHECK_IMMUNITY = "CHECK_IMMUNITY_TIME_IN_SECONDS"
"""Seconds in which the producer of this half is not asked."""
PREPARED_QUEUE_OFFSET = "TRAN_PREPARED_QUEUE_OFFSET"
"""Queue offset of the half that RocketMQ's immunity copy stands for."""

OUTBOX_ID = "PYRMQ_OUTBOX"
"""Which outbox can answer for a half; of pyrmq, no other client knows it."""


class TransactionState(IntEnum):
    """The producer's state of its local transaction. The numbers are those in requests; the text of
    a state is its name."""

    UNKNOWN = 0
    COMMIT = 8
    ROLLBACK = 12

    def __str__(self) -> str:
        return self.name

    def __format__(self, spec: str) -> str:
        return format(self.value if spec.endswith("d") else self.name, spec)
