"""How replication stands, for operators. [HARuntimeInfo]"""

from __future__ import annotations

from typing import Any

from pyrmq.broker.replication.slave import Replication
from pyrmq.engine import Command, HaMaster, Store
from pyrmq.net import fastjson
from pyrmq.net.address import format_address
from pyrmq.net.clock import now_ms
from pyrmq.net.command import Response
from pyrmq.net.server.connection import Connection


class HaStatus:
    """Of a master, or of a slave if there is a `replication`."""

    def __init__(
        self,
        store: Store,
        master: HaMaster | None = None,
        replication: Replication | None = None,
        since: int = 0,
    ) -> None:
        self._store = store
        self._master = master
        self._replication = replication
        self._since = since
        self._sample = (now_ms(), 0, 0)

    def status(self, connection: Connection, command: Command) -> Response:
        """GET_BROKER_HA_STATUS."""
        return Response(body=fastjson.dumps(self.values()))

    def values(self) -> dict[str, object]:
        """RocketMQ's members; this broker's own are a slave's `state` and `why`, and a master's
        `masterSince` (ms): since when it is one by an operator's word, 0: by its configuration;
        `takesOffsets`: slaves hand over what was committed there (UPDATE_CONSUMER_OFFSET);
        and `behindMillis` of each slave: how long ago it had all of the log."""
        end = self._store.stats()["maxPhyOffset"]
        slaves = self._master.replicas() if self._master is not None else []
        is_master = self._replication is None
        return {
            "haClientRuntimeInfo": self._of_slave(end),
            "haConnectionInfo": [
                {
                    "addr": row["peer"],
                    "behindMillis": _behind(row, end),
                    "diff": end - row["ackOffset"],
                    "inSync": row["inSync"],
                    "slaveAckOffset": row["ackOffset"],
                    "transferFromWhere": row["transferFrom"],
                    "transferredByteInSecond": row["bytesPerSecond"],
                }
                for row in slaves
            ],
            "inSyncSlaveNums": sum(row["inSync"] for row in slaves),
            "master": is_master,
            "masterCommitLogMaxOffset": end if is_master else 0,
            **({"masterSince": self._since, "takesOffsets": True} if is_master else {}),
        }

    def _of_slave(self, end: int) -> dict[str, object]:
        replication = self._replication
        if replication is None:
            return {
                "activated": False,
                "lastReadTimestamp": 0,
                "lastWriteTimestamp": 0,
                "masterFlushOffset": 0,
                "maxOffset": 0,
                "transferredByteInSecond": 0,
            }
        status = replication.slave.status()
        master = replication.master
        return {
            "activated": status["connected"],
            "lastReadTimestamp": status["heardAt"],
            "lastWriteTimestamp": status["reportedAt"],
            **({"masterAddr": format_address(master.ha)} if master is not None else {}),
            "masterFlushOffset": status["masterEnd"],
            "maxOffset": end,
            "state": replication.state.name,
            "transferredByteInSecond": self._rate(status["received"]),
            "why": replication.why,
        }

    def _rate(self, received: int) -> int:
        """Bytes per second since the sample before, a second old at least."""
        at, before, rate = self._sample
        now = now_ms()
        if now - at >= 1000:
            rate = (received - before) * 1000 // (now - at)
            self._sample = (now, received, rate)
        return rate


def _behind(row: dict[str, Any], end: int) -> int:
    return 0 if row["ackOffset"] >= end else max(now_ms() - int(row["caughtUpAt"]), 0)
