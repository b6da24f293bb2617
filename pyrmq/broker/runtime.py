"""GET_BROKER_RUNTIME_INFO: figures of a running broker, as texts. [AdminBrokerProcessor]

The names are RocketMQ's where it has one; those of transactions are ours. What this broker does not
measure is left out rather than made up.
"""

from __future__ import annotations

from pyrmq.engine import Command, Delays, Store
from pyrmq.model.codes import VERSION
from pyrmq.net import fastjson
from pyrmq.net.clock import now_ms
from pyrmq.net.command import Response
from pyrmq.net.connection import Connection
from pyrmq.txn import TransactionService

_TRANSACTION_KEYS = {
    "halves": "transactionHalfCount",
    "commits": "transactionCommitCount",
    "rollbacks": "transactionRollbackCount",
    "pending": "transactionPendingCount",
    "checks": "transactionCheckCount",
    "discarded": "transactionDiscardedCount",
    "lost": "transactionLostCount",
    "repeated": "transactionRepeatedEndCount",
    "owed": "transactionOwedOpCount",
    "unreachable": "transactionUnreachableCount",
    "failed": "transactionFailedCheckCount",
    "oldestPendingAgeMs": "transactionOldestPendingAgeMs",
}


class RuntimeInfo:
    def __init__(self, store: Store, transactions: TransactionService, delays: Delays) -> None:
        self._store = store
        self._transactions = transactions
        self._delays = delays
        self._boot = now_ms()

    def table(self) -> dict[str, str]:
        stats = self._store.stats()
        end = stats["maxPhyOffset"]
        table: dict[str, object] = {
            "bootTimestamp": self._boot,
            "brokerActive": "true",
            "brokerVersion": VERSION,
            "brokerVersionDesc": "V5_3_3",
            "startAcceptSendRequestTimeStamp": 0,
            "commitLogMinOffset": stats["minPhyOffset"],
            "commitLogMaxOffset": end,
            "dispatchBehindBytes": end - stats["indexedWhere"],
            "remainHowManyDataToFlush": f"{end - stats['flushedWhere']} B",
        }
        for level, (offset, end) in enumerate(self._delays.levels(), 1):
            table[f"scheduleMessageOffset_{level}"] = f"{offset},{end}"
        for name, value in self._transactions.stats().items():
            table[_TRANSACTION_KEYS[name]] = value
        return {key: str(value) for key, value in sorted(table.items())}

    def __call__(self, connection: Connection, command: Command) -> Response:
        return Response(body=fastjson.dumps({"table": self.table()}))
