"""Transactions: the state machine (`machine`), and the service that drives it over the engine."""

from pyrmq.txn.machine import Rules
from pyrmq.txn.service import TransactionService

__all__ = ["Rules", "TransactionService"]
