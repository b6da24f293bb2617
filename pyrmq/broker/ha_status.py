"""How replication stands, for operators: a master that has no slaves."""

from __future__ import annotations

from pyrmq.engine import Command, Store
from pyrmq.net import fastjson
from pyrmq.net.command import Response
from pyrmq.net.connection import Connection


class HaStatus:
    def __init__(self, store: Store) -> None:
        self._store = store

    def status(self, connection: Connection, command: Command) -> Response:
        """GET_BROKER_HA_STATUS. [HARuntimeInfo]"""
        return Response(
            body=fastjson.dumps(
                {
                    "haClientRuntimeInfo": {
                        "activated": False,
                        "lastReadTimestamp": 0,
                        "lastWriteTimestamp": 0,
                        "masterFlushOffset": 0,
                        "maxOffset": 0,
                        "transferredByteInSecond": 0,
                    },
                    "haConnectionInfo": [],
                    "inSyncSlaveNums": 0,
                    "master": True,
                    "masterCommitLogMaxOffset": self._store.stats()["maxPhyOffset"],
                }
            )
        )
