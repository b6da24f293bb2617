"""Watches transactions that wait: half messages that are neither committed nor rolled back."""

from __future__ import annotations

import time

from pyrmq.admin.link import AdminLink
from pyrmq.admin.monitoring.metrics import Part
from pyrmq.admin.monitoring.rounds import Round, Turn
from pyrmq.admin.txn.link import BrokerLink
from pyrmq.admin.txn.scan import NoTransactionsError, pending
from pyrmq.net.address import parse_address


class TransactionWatcher:
    """Compares half messages with op records at each master, as `pyrmq admin txn stats` does, from
    where the broker says that all before is settled."""

    name = "transactions"

    def __init__(self, link: AdminLink) -> None:
        self._link = link
        self._turn = Turn()

    async def watch(self, round_: Round) -> None:
        masters = await self._link.masters(default_all=True)
        # One that is missing is listed as it was: its alarms stay as they are.
        places = {f"{r.broker_name} {r.was or r.address}": r.address for r in masters}
        round_.listed((Part.TRANSACTIONS,), set(places))

        async def one(label: str) -> None:
            await self._one(round_, label, places[label])

        await round_.each(places, "transactions of", one, self._turn)

    async def _one(self, round_: Round, label: str, address: str) -> None:
        if address in self._link.missed:
            raise self._link.missed[address]
        link = BrokerLink(self._link.channels, parse_address(address, "broker address"))
        count, age, exact = 0, 0.0, True
        try:
            table = (await pending(link, 1)).table
        except NoTransactionsError:
            pass
        else:
            count, exact = table.count, table.exact
            if table.oldest is not None:
                age = max(time.time_ns() // 1_000_000 - table.oldest, 0) / 1000
        round_.figure("transactions", count, server=label, partial=not exact)
        round_.figure("transaction_age", age, server=label, partial=not exact)
        round_.seen(Part.TRANSACTIONS, label)
