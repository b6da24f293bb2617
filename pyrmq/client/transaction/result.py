"""Results of transactions: of one that was sent, and counters of a producer."""

from __future__ import annotations

from dataclasses import dataclass

from pyrmq.model.message import SendResult
from pyrmq.model.transaction import TransactionState


@dataclass(frozen=True, slots=True)
class TransactionSendResult(SendResult):
    """Where the half was stored, the state of its local transaction, and that transaction's
    error."""

    local_state: TransactionState = TransactionState.UNKNOWN
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class TransactionStatistics:
    """Counters since the start; `checks_waiting` and `checks_running` are current numbers.

    `committed`, `rolled_back` and `unknown` count outcomes of local transactions, `ends_failed`
    outcomes that no broker has confirmed. If a check was dropped or its answer failed, the broker
    asks again.
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
