"""`admin.transactions` against a broker of lists: what is found, and what decisions come to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyrmq.admin import Admin
from pyrmq.admin.txn.halves import Filter
from pyrmq.admin.txn.scan import NoTransactionsError
from pyrmq.errors import ConnectError
from tests.support.scripted.broker import BORN, DISCARDED, HALF, ScriptedBroker

GONE = "127.0.0.1:1"


@pytest.fixture
def broker() -> ScriptedBroker:
    return ScriptedBroker()


@pytest.fixture
def address(broker: ScriptedBroker) -> Iterator[str]:
    with broker.serving() as where:
        yield where


def decisions(broker: ScriptedBroker) -> list[str]:
    return [c.ext["commitOrRollback"] for c in broker.asked if c.code == 37]


async def test_what_is_pending(broker: ScriptedBroker, address: str) -> None:
    broker.half("A", topic="T")
    broker.half("B", topic="U", born=BORN - 1)
    async with Admin(GONE) as admin:
        (scan,) = (await admin.transactions.pending(broker=address)).check_all().values
        assert [half.transaction_id for half in scan.table.rows()] == ["B", "A"]
        wanted = Filter("T", None, None)
        (scan,) = (await admin.transactions.pending(wanted, broker=address)).values
        assert scan.table.count == 1
        (counts,) = (await admin.transactions.statistics(broker=address)).values
        assert counts.scan is not None
        assert counts.scan.table.count == 2


async def test_decisions(broker: ScriptedBroker, address: str) -> None:
    for key in ("A", "B", "Twice"):
        broker.half(key)
    broker.half("Twice", born=BORN + 1)
    async with Admin(GONE) as admin:
        names = ["A", "none", "Twice"]
        done, lost, several = await admin.transactions.commit(names, broker=address)
        assert (done.done, done.error) == (True, None)
        assert "no such transaction" in str(lost.error)
        assert "is 2 transactions" in str(several.error)
        assert decisions(broker) == ["8"]
        (again,) = await admin.transactions.commit(["A"], broker=address)
        assert not again.done
        assert "committed" in str(again.error)
        (back,) = await admin.transactions.rollback(["B"], broker=address)
        assert (back.done, decisions(broker)) == (True, ["8", "12"])


async def test_discarded_and_resumed(broker: ScriptedBroker, address: str) -> None:
    broker.half("K")
    broker.half("K", where=DISCARDED)
    broker.offsets[HALF] = 1
    async with Admin(GONE) as admin:
        (found,) = (await admin.transactions.discarded(broker=address)).values
        assert ([h.transaction_id for h in found.halves], found.count) == (["K"], 1)
        (done,) = await admin.transactions.resume(["K"], broker=address)
        assert done.done
        found_now = await admin.transactions.find(["K", "other"], broker=address)
        assert list(found_now.transactions) == ["K"]
        assert found_now.problems == [f"other: no such transaction on {address}"]


async def test_brokers_without_and_without_an_answer(address: str) -> None:
    async with Admin(GONE) as admin:
        (empty,) = await admin.transactions.pending(broker=address)
        assert isinstance(empty.error, NoTransactionsError)
        with pytest.raises(NoTransactionsError):
            await admin.transactions.find(["K"], broker=address)
        (silent,) = await admin.transactions.pending(broker=GONE)
        assert isinstance(silent.error, ConnectError)
        with pytest.raises(ConnectError, match="no name server answered"):
            await admin.transactions.pending()
