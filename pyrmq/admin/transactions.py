"""Transactions of running brokers: what is pending, one of them whole, and deciding in the
producer's place. pyrmq/admin/txn reads the topics of one broker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from pyrmq.admin.link import Part
from pyrmq.admin.outcome import Outcomes
from pyrmq.admin.txn import transactions as txn
from pyrmq.admin.txn.finder import Transaction, TransactionFinder
from pyrmq.admin.txn.halves import Filter, Half
from pyrmq.admin.txn.link import TIMEOUT, BrokerLink
from pyrmq.admin.txn.scan import NoTransactionsError, Scan, Statistics, pending, statistics
from pyrmq.admin.txn.transactions import Answer
from pyrmq.errors import BrokerMissingError, ClientError, PyrmqError
from pyrmq.model.transaction import TransactionState
from pyrmq.net.address import parse_address

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Discarded:
    """The oldest discarded transactions of a broker. `count`: of all that it has stored, also those
    that were resumed or committed since."""

    halves: list[Half]
    count: int


@dataclass(frozen=True, slots=True)
class Found:
    """Transactions by the names that lead to them, and what is to be said of the other names."""

    transactions: dict[str, list[Transaction]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Decided:
    """What became of a change of one transaction: the broker's answer, or the error that came
    before it. `transaction`: as it was found."""

    name: str
    transaction: Transaction | None = None
    answer: Answer | None = None
    error: PyrmqError | None = None

    @property
    def done(self) -> bool:
        return self.answer is not None and self.answer.done


class Transactions(Part):
    """`admin.transactions`. `broker` (`host:port`) or `cluster` say which masters are asked;
    default: all."""

    async def pending(
        self,
        wanted: Filter | None = None,
        *,
        limit: int = 100,
        broker: str | None = None,
        cluster: str | None = None,
    ) -> Outcomes[Scan]:
        """What each broker has that is neither committed nor rolled back; `limit`: the oldest of
        each. A broker that no transaction was ever sent to is a NoTransactionsError."""
        return await self._on_each(
            broker, cluster, lambda link: pending(link, limit, wanted, self._link.progress)
        )

    async def discarded(
        self,
        wanted: Filter | None = None,
        *,
        limit: int = 100,
        broker: str | None = None,
        cluster: str | None = None,
    ) -> Outcomes[Discarded]:
        """What each broker has in TRANS_CHECK_MAX_TIME_TOPIC, and nobody has resumed or committed
        since; `limit`: the oldest of each."""

        async def one(link: BrokerLink) -> Discarded:
            return Discarded(*await txn.list_discarded(link, limit, wanted, self._link.progress))

        return await self._on_each(broker, cluster, one)

    async def statistics(
        self,
        wanted: Filter | None = None,
        *,
        broker: str | None = None,
        cluster: str | None = None,
    ) -> Outcomes[Statistics]:
        """Counts of each broker, by topic and producer group."""
        return await self._on_each(
            broker, cluster, lambda link: statistics(link, wanted, self._link.progress)
        )

    async def find(
        self, names: Sequence[str], *, broker: str | None = None, cluster: str | None = None
    ) -> Found:
        """The transactions that names lead to: transaction ids, offsets in the half queue or offset
        ids. Raises NoTransactionsError if the only broker has none."""
        finders = await self._finders(broker, cluster)
        found = Found()
        for name in dict.fromkeys(names):
            here, problems = await self._find(finders, name)
            if here:
                found.transactions[name] = here
            found.problems.extend(problems)
        return found

    async def _find(
        self, finders: Sequence[TransactionFinder | BrokerMissingError], name: str
    ) -> tuple[list[Transaction], list[str]]:
        here: list[Transaction] = []
        problems: list[str] = []
        asked = [finder for finder in finders if isinstance(finder, TransactionFinder)]
        for finder in asked:
            try:
                here += await finder.find(name)
            except NoTransactionsError:
                if len(finders) == 1:
                    raise
            except PyrmqError as e:
                problems.append(f"{name}: {finder.link.name}: {e}")
        missing = [str(finder) for finder in finders if isinstance(finder, BrokerMissingError)]
        if not here and not problems:
            where = ", ".join(finder.link.name for finder in asked[:8])
            problems.append("; ".join([f"{name}: no such transaction on {where}", *missing]))
        return here, problems

    async def commit(
        self, names: Sequence[str], *, broker: str | None = None, cluster: str | None = None
    ) -> list[Decided]:
        """Commits transactions in their producer's place, each as it is found now. One that is
        decided already, or that cannot be found, has an error."""
        return await self._decide(names, TransactionState.COMMIT, broker, cluster)

    async def rollback(
        self, names: Sequence[str], *, broker: str | None = None, cluster: str | None = None
    ) -> list[Decided]:
        """Rolls transactions back, as `commit`."""
        return await self._decide(names, TransactionState.ROLLBACK, broker, cluster)

    async def resume(
        self, names: Sequence[str], *, broker: str | None = None, cluster: str | None = None
    ) -> list[Decided]:
        """Has the producers of discarded transactions asked again, as `commit`."""
        return await self._change(names, broker, cluster, txn.resume)

    async def _decide(
        self,
        names: Sequence[str],
        state: TransactionState,
        broker: str | None,
        cluster: str | None,
    ) -> list[Decided]:
        return await self._change(names, broker, cluster, lambda t: txn.decide(t, state))

    async def _change(
        self,
        names: Sequence[str],
        broker: str | None,
        cluster: str | None,
        act: Callable[[Transaction], Awaitable[Answer]],
    ) -> list[Decided]:
        finders = await self._finders(broker, cluster)
        done: list[Decided] = []
        for name in dict.fromkeys(names):
            here: list[Transaction] = []
            try:
                here, problems = await self._find(finders, name)
                if not here:
                    raise ClientError("; ".join(problems))
                check_single(name, here)
                done.append(Decided(name, here[0], await act(here[0])))
            except PyrmqError as e:
                done.append(Decided(name, here[0] if here else None, error=e))
        return done

    async def _on_each(
        self,
        broker: str | None,
        cluster: str | None,
        work: Callable[[BrokerLink], Awaitable[T]],
    ) -> Outcomes[T]:
        masters = await self._link.masters(broker=broker, cluster=cluster, default_all=True)

        async def one(address: str) -> T:
            if address in self._link.missed:
                raise self._link.missed[address]
            return await work(self._to(address))

        return await self._link.on_each(masters, one, at_once=1)

    async def _finders(
        self, broker: str | None, cluster: str | None
    ) -> list[TransactionFinder | BrokerMissingError]:
        masters = await self._link.masters(broker=broker, cluster=cluster, default_all=True)
        return [
            self._link.missed[m.address]
            if m.address in self._link.missed
            else TransactionFinder(self._to(m.address), self._link.progress)
            for m in masters
        ]

    def _to(self, address: str) -> BrokerLink:
        return BrokerLink(
            self._link.channels,
            parse_address(address, "broker address"),
            timeout=self._link.patience(TIMEOUT),
        )


def check_single(name: str, here: Sequence[Transaction]) -> None:
    """Raises ClientError if a name leads to several transactions."""
    if len(here) > 1:
        places = ", ".join(f"{t.message.offset_msg_id} on {t.link.name}" for t in here[:8])
        raise ClientError(f"{name} is {len(here)} transactions: name one of {places}")
