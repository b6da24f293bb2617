"""The keys of replication: what a broker is to others of its name. [MessageStoreConfig]"""

from __future__ import annotations

from dataclasses import dataclass

from pyrmq.config.table import key
from pyrmq.errors import ConfigError
from pyrmq.net.address import parse_address
from pyrmq.net.server.admin_access import parse_networks

SLAVE = "SLAVE"
SYNC_MASTER = "SYNC_MASTER"


def _address_or_none(text: str) -> None:
    if text:
        try:
            port = parse_address(text)[1]
        except ConfigError as e:
            raise ValueError(str(e)) from None
        if port == 0:
            raise ValueError("port 0 cannot be connected to")


@dataclass(frozen=True, slots=True)
class ReplicationConfig:
    """The part of BrokerConfig that says how the log is replicated; times are ms, sizes bytes."""

    broker_role: str = key(
        "ASYNC_MASTER",
        "A master takes messages and sends its log to slaves; SYNC_MASTER confirms what "
        "inSyncReplicas have. A SLAVE follows the master of its brokerName.",
        choices=("ASYNC_MASTER", SYNC_MASTER, SLAVE),
        section="Replication ([replication.md](replication.md))",
    )
    broker_id: int = key(0, "0 for a master, another one for each slave of it.", high=(1 << 31) - 1)
    ha_listen_port: int = key(
        0,
        "A master's port for slaves; 0: listenPort + 1 (any free one with listenPort=0).",
        high=65535,
    )
    ha_master_address: str = key(
        "",
        "A slave's master, its HA port; empty: as the name servers say.",
        check=_address_or_none,
        values="HOST:PORT",
    )
    ha_address_allow_list: str = key(
        "",
        "Addresses and networks from which slaves may connect; empty: those at which name servers "
        "list a slave of this brokerName (any, without name servers). Not RocketMQ's.",
        check=parse_networks,
        values="such as 10.0.0.5,10.1.0.0/16,fd00::/8",
    )
    in_sync_replicas: int = key(
        1,
        "Replicas, a SYNC_MASTER among them, that have a message before it is confirmed. With 1 it "
        "waits for nobody.",
        low=1,
        high=64,
    )
    min_in_sync_replicas: int = key(
        1,
        "Replicas of a SYNC_MASTER that have to be in sync: with fewer, messages are refused.",
        low=1,
        high=64,
    )
    enable_auto_in_sync_replicas: bool = key(
        False,
        "Whether a SYNC_MASTER waits for as many replicas as are in sync, minInSyncReplicas at "
        "least and inSyncReplicas at most.",
    )
    slave_timeout: int = key(
        3000, "ms after which it answers FLUSH_SLAVE_TIMEOUT.", low=1, high=600_000
    )
    ha_max_gap_not_in_sync: int = key(256 << 20, "Bytes that a slave in sync may be behind.", low=1)
    slave_read_enable: bool = key(
        False,
        "At a slave: whether consumers may read there. At a master: whether it sends those there "
        "that are far behind.",
        live=True,
    )
    ha_send_heartbeat_interval: int = key(
        5000, "ms of silence after which either side says something.", low=10, high=3_599_999
    )
    ha_housekeeping_interval: int = key(
        20_000, "ms of silence after which a connection is given up.", low=100, high=3_600_000
    )
    ha_transfer_batch_size: int = key(
        32 << 10, "Most bytes that a master sends at a time.", low=1024, high=4 << 20
    )
    ha_flow_control_enable: bool = key(False, "Whether maxHaTransferByteInSecond applies.")
    max_ha_transfer_byte_in_second: int = key(
        100 << 20, "Most bytes that a slave is sent in a second.", low=1024
    )

    @property
    def is_slave(self) -> bool:
        return self.broker_role == SLAVE

    @property
    def waits_for_slaves(self) -> bool:
        """Whether what is stored is confirmed by slaves."""
        return self.broker_role == SYNC_MASTER and self.in_sync_replicas > 1

    def check_replication(self) -> None:
        """ConfigError for keys that do not go together."""
        if self.is_slave and not self.broker_id:
            raise ConfigError("brokerRole=SLAVE needs a brokerId above 0: 0 is its master's")
        if not self.is_slave and self.broker_id:
            raise ConfigError(
                f"brokerId={self.broker_id} is a slave's: a master has brokerId=0, or set "
                "brokerRole=SLAVE"
            )
        if self.min_in_sync_replicas > self.in_sync_replicas:
            raise ConfigError("minInSyncReplicas is at most inSyncReplicas")
        if self.ha_housekeeping_interval <= self.ha_send_heartbeat_interval:
            raise ConfigError("haHousekeepingInterval has to be above haSendHeartbeatInterval")
