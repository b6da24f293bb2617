"""What the producers know, and what must therefore hold of the log in the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from tests.support.records import Record
from tests.support.transactions import COMMIT, ROLLBACK, Half


class Broken(BaseException):
    """Something that must hold does not. No broker code catches it."""


class Kind(Enum):
    COMMIT = "commit"
    ROLLBACK = "rollback"
    MUTE = "never decided"
    ONCE = "committed, and forgotten once that was acknowledged"


@dataclass(eq=False)
class Chain:
    """One half that was stored, and all its copies: what one send attempt made."""

    key: str
    attempt: int
    half: Half | None = None
    """What the answer to the send said, once there was one."""
    lost: bool = False
    """The machine lost its power before the acknowledged half was on disk."""
    asked: dict[int, int] = field(default_factory=dict)
    """Physical offset of the copy by the check count it carried."""
    resumed: int = 0

    @property
    def body(self) -> bytes:
        return f"{self.key}#{self.attempt}".encode()


@dataclass(eq=False)
class Transaction:
    key: str
    group: str
    topic: str
    queue_id: int
    kind: Kind
    immunity: int | None = None
    same_birth: bool = False
    """All attempts carry one bornTimestamp, as when a retry comes within a millisecond."""
    born: int = 0
    decision: int | None = None
    """COMMIT or ROLLBACK, in the database that all producers of the group share."""
    running: bool = False
    forgotten: bool = False
    acknowledged_end: int = -1
    """ONCE: the log ended here when its COMMIT was acknowledged."""
    acknowledged_lost: bool = False
    chains: dict[int, Chain] = field(default_factory=dict)

    def decide(self, decision: int) -> None:
        """The first decision stands: it is a row in a database."""
        if self.decision is None:
            self.decision = decision

    def attempt(self) -> Chain:
        number = len(self.chains)
        return self.chains.setdefault(number, Chain(self.key, number))

    def commits(self) -> bool:
        return self.decision == COMMIT


class Model:
    def __init__(self, check_max: int, sync: bool) -> None:
        self.check_max = check_max
        self.sync = sync
        self.transactions: dict[str, Transaction] = {}
        self.expires = False
        """The clock jumped so far that halves may have become too old to be asked about."""

    def add(self, transaction: Transaction) -> None:
        self.transactions[transaction.key] = transaction

    def chain(self, body: bytes) -> Chain:
        key, _, attempt = body.decode().rpartition("#")
        return self.transactions[key].chains[int(attempt)]

    def has_twins(self) -> bool:
        return any(t.same_birth and len(t.chains) > 1 for t in self.transactions.values())

    def asked(self, body: bytes, count: int, phys: int) -> None:
        """The broker sends a check."""
        chain = self.chain(body)
        if not 1 <= count <= self.check_max:
            raise Broken(f"{body!r} is asked about for the {count}th time of {self.check_max}")
        if count in chain.asked and not self.transactions[chain.key].same_birth:
            raise Broken(f"{body!r} is asked about twice with count {count}")
        chain.asked[count] = phys

    def power_lost(self, at: int) -> None:
        """What was acknowledged and lies behind `at` is gone: rightly, with ASYNC_FLUSH."""
        for transaction in self.transactions.values():
            for chain in transaction.chains.values():
                if chain.half is not None and chain.half.phys >= at:
                    chain.lost = True
                    self._check_async(chain.body)
            if transaction.acknowledged_end > at:
                transaction.acknowledged_lost = True
                self._check_async(transaction.key)

    def _check_async(self, what: object) -> None:
        if self.sync:
            raise Broken(f"{what!r} was acknowledged before it was on disk, and is lost")

    def log_cut(self, at: int) -> None:
        """Copies behind `at` are gone: their counts may come again."""
        for transaction in self.transactions.values():
            for chain in transaction.chains.values():
                chain.asked = {n: phys for n, phys in chain.asked.items() if phys < at}

    # What must hold in the end.

    def check(self, halves: list[Record], messages: list[Record], discarded: list[Record]) -> None:
        """Looks at all halves, delivered messages and discarded messages of the log."""
        for transaction in self.transactions.values():
            chains = transaction.chains.values()
            counts = []
            for chain in chains:
                stored = [r for r in halves if r.body == chain.body]
                delivered = [r for r in messages if r.body == chain.body]
                put_by = [r for r in discarded if r.body == chain.body]
                if chain.half is not None and not chain.lost and not stored:
                    raise Broken(f"{chain.body!r} was acknowledged and is gone")
                if stored:
                    counts.append(len(delivered))
                    self._check_chain(transaction, chain, stored, delivered, put_by)
                elif delivered or put_by:
                    raise Broken(f"{chain.body!r} was delivered or discarded without a half")
            if transaction.same_birth and counts:
                self._check_twins(transaction, counts, discarded)

    def _check_twins(self, tx: Transaction, counts: list[int], discarded: list[Record]) -> None:
        """Halves of one transaction and one birth may be taken for copies of each other."""
        if tx.decision is None:
            bodies = {chain.body for chain in tx.chains.values()}
            if not any(r.body in bodies for r in discarded):
                raise Broken(f"nobody decided about {tx.key}, and it was not discarded")
        if sum(counts) > (len(counts) if tx.commits() else 0):
            raise Broken(f"{tx.key} ({tx.decision}): {len(counts)} halves, delivered {counts}")
        if tx.commits() and not sum(counts) and not (tx.forgotten and tx.acknowledged_lost):
            raise Broken(f"{tx.key} was committed and never delivered")

    def _check_chain(
        self,
        transaction: Transaction,
        chain: Chain,
        stored: list[Record],
        delivered: list[Record],
        put_by: list[Record],
    ) -> None:
        name, n = chain.body.decode(), len(delivered)
        for record in delivered:
            place = (record.topic, record.queue_id)
            if place != (transaction.topic, transaction.queue_id):
                raise Broken(f"{name} was delivered in {place}")
            if record.sys_flag & 0xC != COMMIT:
                raise Broken(f"{name} was delivered with sysFlag {record.sys_flag}")
            prepared = [r for r in stored if r.physical_offset == record.prepared_offset]
            if not prepared and not transaction.same_birth:
                raise Broken(f"{name} was delivered for a half at {record.prepared_offset}")
        for record in put_by:
            count = int(record.properties.get("TRANSACTION_CHECK_TIMES", "0"))
            if count < self.check_max and not self.expires:
                raise Broken(f"{name} was discarded after {count} checks of {self.check_max}")
        decision = transaction.decision
        if transaction.kind is Kind.ONCE and transaction.forgotten:
            if transaction.acknowledged_lost:
                if n > 1:
                    raise Broken(f"{name} was delivered {n} times")
            elif chain.half and not chain.lost and n != 1 and not transaction.same_birth:
                raise Broken(f"the commit of {name} was acknowledged; it was delivered {n} times")
            return
        if decision == ROLLBACK or decision is None:
            if n:
                raise Broken(f"{name} ({decision}) was delivered {n} times")
            if decision is None and not put_by and not transaction.same_birth:
                raise Broken(f"nobody decided about {name}, and it was not discarded")
        elif n > 1 and not transaction.same_birth:
            raise Broken(f"{name} was delivered {n} times")
        elif n == 0 and not transaction.same_birth:
            raise Broken(f"{name} was committed and never delivered")
