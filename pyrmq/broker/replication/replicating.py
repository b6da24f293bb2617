"""What a broker runs for its role: a master's HA port, or a slave's connection to its master.

`HaStatus` answers GET_BROKER_HA_STATUS.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from pyrmq.broker.config.broker_config import BrokerConfig
from pyrmq.broker.config.service import SYNC_MASTER
from pyrmq.broker.replication.ha_tls import HaTls
from pyrmq.broker.replication.master import HaPlaces, HaServer
from pyrmq.broker.replication.peers import Peers
from pyrmq.broker.replication.slave import Master, Replication, State
from pyrmq.engine import Command, HaMaster, HaSlave, Store, TlsContext
from pyrmq.net import fastjson
from pyrmq.net.address import format_address, parse_address
from pyrmq.net.client.server_access import channels_of, tls_of
from pyrmq.net.clock import now_ms
from pyrmq.net.command import Response
from pyrmq.net.server.connection import Connection
from pyrmq.net.tasks import Tasks

log = logging.getLogger(__name__)


class Replicating:
    """Replication of one broker. `server`: a master's; `replication`: a slave's. `master` waits
    until the name servers have said who a slave's master is. `tls`: which connections to the HA
    port speak TLS."""

    def __init__(
        self,
        config: BrokerConfig,
        store: Store,
        sockets: list[socket.socket],
        master: Callable[[], Awaitable[Master]],
        since: int,
        peers: Peers,
        tls: TlsContext | None = None,
    ) -> None:
        self._config = config
        open_channels = partial(channels_of, config)
        self._known = master
        self.since = since
        """When it became what it is by an operator's word, ms; 0: it is as configured."""
        self._watchers: list[Callable[[], None]] = []
        self.server: HaServer | None = None
        self.replication: Replication | None = None
        if config.is_slave:
            slave = HaSlave(
                store.native,
                heartbeat_interval=config.ha_send_heartbeat_interval,
                housekeeping_interval=config.ha_housekeeping_interval,
            )
            connecting = tls_of(config)
            self.replication = Replication(
                store,
                slave,
                self._master,
                self._changed,
                open_channels,
                None if connecting is None else HaTls(connecting),
            )
        else:
            if config.broker_role == SYNC_MASTER and not config.waits_for_slaves:
                log.warning(
                    "brokerRole=SYNC_MASTER with inSyncReplicas=1 waits for no slave: set "
                    "inSyncReplicas=2 to have messages on two machines before they are acknowledged"
                )
            limit = config.max_ha_transfer_byte_in_second
            masters = HaMaster(
                store.native,
                in_sync_replicas=config.in_sync_replicas,
                min_in_sync_replicas=config.min_in_sync_replicas,
                auto_in_sync_replicas=config.enable_auto_in_sync_replicas,
                max_gap=config.ha_max_gap_not_in_sync,
                transfer_batch_size=config.ha_transfer_batch_size,
                heartbeat_interval=config.ha_send_heartbeat_interval,
                housekeeping_interval=config.ha_housekeeping_interval,
                most_per_second=limit if config.ha_flow_control_enable else None,
                tls=tls,
            )
            places = HaPlaces(peers, config.ha_address_allow_list)
            self.server = HaServer(sockets, masters, places, open_channels)

    def want(self, config: BrokerConfig) -> None:
        """How many replicas a master waits for has changed. It counts at once, also for sends that
        wait already."""
        if self.server is not None:
            self.server.master.want(config.in_sync_replicas, config.min_in_sync_replicas)

    def watch(self, watcher: Callable[[], None]) -> None:
        """From now on `watcher` is called when a slave has got or lost its master."""
        self._watchers.append(watcher)

    def _changed(self) -> None:
        for watcher in self._watchers:
            watcher()

    def leave_slaves(self) -> None:
        """Ends the connections of slaves: those that still follow this master look for another."""
        if self.server is not None:
            self.server.master.stop()

    async def _master(self) -> Master:
        """haMasterAddress goes before what the name servers say of the HA port. Without name
        servers the master's own port is the one before."""
        fixed = self._config.ha_master_address
        if not fixed:
            return await self._known()
        host, port = parse_address(fixed)
        if not self._config.namesrv_addr:
            return Master((host, port - 1), (host, port))
        return Master((await self._known()).broker, (host, port))

    async def followed(self) -> Master:
        """The master that a slave's log follows, whatever name servers say since: its log was
        compared. Where it follows none, the one that it would."""
        replication = self.replication
        if replication is not None and self.has_master() and replication.master is not None:
            return replication.master
        return await self._master()

    def is_slave(self, peer: str) -> bool:
        """Whether a peer (`host:port`) of this master is where a slave of it may be."""
        return self.server is not None and self.server.has_place(peer)

    def has_master(self) -> bool:
        """Whether a slave's master is there."""
        replication = self.replication
        return replication is not None and replication.state is State.FOLLOWING

    async def start(self, tasks: Tasks) -> None:
        if self.server is not None:
            await tasks.start(self.server.run)
        if self.replication is not None:
            tasks.start_soon(self.replication.run)


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
        log_end = self._store.stats()["maxPhyOffset"]
        slaves = self._master.replicas() if self._master is not None else []
        is_master = self._replication is None
        return {
            "haClientRuntimeInfo": self._of_slave(log_end),
            "haConnectionInfo": [
                {
                    "addr": row["peer"],
                    "behindMillis": _behind(row, log_end),
                    "diff": log_end - row["ackOffset"],
                    "inSync": row["inSync"],
                    "slaveAckOffset": row["ackOffset"],
                    "transferFromWhere": row["transferFrom"],
                    "transferredByteInSecond": row["bytesPerSecond"],
                }
                for row in slaves
            ],
            "inSyncSlaveNums": sum(row["inSync"] for row in slaves),
            "master": is_master,
            "masterCommitLogMaxOffset": log_end if is_master else 0,
            **({"masterSince": self._since, "takesOffsets": True} if is_master else {}),
        }

    def _of_slave(self, log_end: int) -> dict[str, object]:
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
            "maxOffset": log_end,
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


def _behind(row: dict[str, Any], log_end: int) -> int:
    return 0 if row["ackOffset"] >= log_end else max(now_ms() - int(row["caughtUpAt"]), 0)
