"""The ledgers of a run: one for each consumer group, as every group has to get every message that
it wants."""

from __future__ import annotations

from collections.abc import Iterator

from tests.support.ledger import Ledger


class Ledgers:
    """All of them, and their sums."""

    def __init__(self) -> None:
        self.plain = Ledger("plain: members come and go", in_place=True)
        self.failing = Ledger("plain: consumers fail", in_place=True)
        self.tags = Ledger("tags", in_place=True)
        self.sql = Ledger("SQL92", in_place=True)
        self.delayed = Ledger("delayed")
        self.transactions = Ledger("transactions")
        self.ordered = Ledger("ordered", in_place=True, ordered=True)
        self.broadcast = [Ledger(f"broadcast to {n}", in_place=True) for n in ("a", "b")]
        self.requests = Ledger("requests", in_place=True)
        self.replies = Ledger("replies", once=False)
        self.client = Ledger("pyrmq's client", once=False)

    def __iter__(self) -> Iterator[Ledger]:
        return iter([
            self.plain, self.failing, self.tags, self.sql, self.delayed, self.transactions,
            self.ordered, *self.broadcast, self.requests, self.replies, self.client,
        ])  # fmt: skip

    def owed(self) -> int:
        return sum(ledger.owed() for ledger in self)

    def oldest_owed(self) -> int | None:
        found = [low for ledger in self if (low := ledger.oldest_owed()) is not None]
        return min(found, default=None)

    def newest(self) -> int:
        return max(ledger.newest for ledger in self)

    def receipts(self) -> int:
        return sum(ledger.receipts for ledger in self)

    def faults(self) -> list[str]:
        return [fault for ledger in self for fault in ledger.faults()]
