"""What became of transactions: of one that was sent, and of all of a producer."""

from __future__ import annotations

from dataclasses import dataclass

from pyrmq.model.message import SendResult
from pyrmq.model.transaction import TransactionState


@dataclass(frozen=True, slots=True)
class TransactionSendResult(SendResult):
    """Where the half went, what its local transaction said, and the error it ended with."""

    local_state: TransactionState = TransactionState.UNKNOWN
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class TransactionStatistics:
    """Counters since the start; `checks_waiting` and `checks_running` are those of now.

    `committed`, `rolled_back` and `unknown` are outcomes of local transactions, `ends_failed` those
    that no broker has confirmed. A check that was dropped or whose answer failed is asked again.
    """

    halves_sent: int
    committed: int
    rolled_back: int
    unknown: int
    ends_failed: int
    checks_answered: int
    checks_dropped: int
    checks_failed: int
    checks_unreadable: int
    checks_waiting: int
    checks_running: int
