"""The name server's configuration: NamesrvConfig and NettyServerConfig keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyrmq.auth.settings import OTHER_ACCESS_KEYS, AccessKeys
from pyrmq.config.log_keys import LogKeys
from pyrmq.config.table import (
    FixedKey,
    LiveConfig,
    UnusedKey,
    check_fields,
    from_properties,
    key,
)
from pyrmq.metrics.settings import MetricsKeys
from pyrmq.net.server.admin_access import parse_networks

_THREADS = "there are no thread pools here: trio runs everything"
_SOCKETS = "the system sizes the buffers of sockets"
_QUEUES = "requests wait in sockets here, not in queues of thread pools"

OTHER_KEYS: tuple[FixedKey | UnusedKey, ...] = (
    FixedKey("enableControllerInNamesrv", ("false",), "there is no controller"),
    FixedKey("clusterTest", ("false",), "it is for tests of RocketMQ itself"),
    FixedKey("migrateAuthFromV1Enabled", ("false",), "a name server has no accounts of ACL 1.0"),
    *OTHER_ACCESS_KEYS,
    UnusedKey("rocketmqHome", "nothing is read from there"),
    UnusedKey("configStorePath", "the file given with -c is the only one, and is never written"),
    UnusedKey("productEnvName", "it belongs to clusterTest"),
    UnusedKey("clientRequestThreadPoolNums", _THREADS),
    UnusedKey("defaultThreadPoolNums", _THREADS),
    UnusedKey("serverWorkerThreads", _THREADS),
    UnusedKey("serverSelectorThreads", _THREADS),
    UnusedKey("serverCallbackExecutorThreads", _THREADS),
    UnusedKey("clientRequestThreadPoolQueueCapacity", _QUEUES),
    UnusedKey("defaultThreadPoolQueueCapacity", _QUEUES),
    UnusedKey("serverOnewaySemaphoreValue", _QUEUES),
    UnusedKey("serverAsyncSemaphoreValue", _QUEUES),
    UnusedKey("serverSocketSndBufSize", _SOCKETS),
    UnusedKey("serverSocketRcvBufSize", _SOCKETS),
    UnusedKey("serverPooledByteBufAllocatorEnable", "there is no Netty here"),
    UnusedKey("useEpollNativeSelector", _THREADS),
    UnusedKey("unRegisterBrokerQueueCapacity", "brokers that leave are taken out at once"),
)
"""RocketMQ's keys for which NamesrvConfig has no field."""


@dataclass(frozen=True, slots=True)
class NamesrvKeys:
    """The keys of NamesrvConfig but those that brokers have too. UPDATE_NAMESRV_CONFIG may change
    those with `live`, as they are read each time that they are needed. None of them holds a path or
    an address, or says whom this process connects to."""

    listen_port: int = key(
        9876, "Port to listen on; 0: any free one.", high=65535, section="Connections and brokers"
    )
    bind_address: str = key("0.0.0.0", "Address to listen on.")
    scan_not_active_broker_interval: int = key(
        5000,
        "ms between two passes that remove expired brokers.",
        low=10,
        high=86_400_000,
        live=True,
    )
    server_channel_max_idle_time_seconds: int = key(
        120, "Seconds after which an idle connection is closed.", low=1, high=86_400
    )
    slow_log_ms: int = key(
        1000,
        "ms after which a request is slow, and has a line in the log; 0: none is. Not RocketMQ's.",
        high=3_600_000,
    )
    delete_topic_with_broker_registration: bool = key(
        False,
        "Whether a registration deletes the topics that it lacks. "
        "Brokers then need enableSingleTopicRegister=true, or lose topics.",
        live=True,
    )
    support_acting_master: bool = key(
        False,
        "Whether a group without a master shows its smallest broker id as the master, "
        "if its brokers have enableSlaveActingMaster.",
        live=True,
    )
    notify_min_broker_id_changed: bool = key(
        False,
        "Whether the brokers of such a group are told when its smallest broker id changes. "
        "The name server then connects to the addresses that they registered.",
    )

    need_wait_for_service: bool = key(
        False,
        "Whether routes are refused at first, until the brokers had time to register.",
        section="Routes and topic lists",
        live=True,
    )
    wait_seconds_for_service: int = key(
        45, "Seconds after the start that needWaitForService applies to.", high=86_400, live=True
    )
    order_message_enable: bool = key(
        False,
        "Whether a route has the order configuration of its topic, "
        "from the KV namespace ORDER_TOPIC_CONFIG.",
        live=True,
    )
    return_order_topic_config_to_broker: bool = key(
        True, "Whether brokers that register get that namespace.", live=True
    )
    enable_all_topic_list: bool = key(
        True, "Whether all topics are listed for whoever asks.", live=True
    )
    enable_topic_list: bool = key(
        True, "Whether the topics of a cluster, and unit topics, are listed.", live=True
    )

    kv_config_path: Path = key(  # noqa: RUF009
        lambda: Path.home() / "namesrv" / "kvConfig.json",
        "File of the KV configuration; a second name server does not start with it.",
        values="a file",
        shown="~/namesrv/kvConfig.json",
        section="Configuration that changes",
    )
    config_black_list: str = key(
        "configBlackList;configStorePath;kvConfigPath",
        "Keys that UPDATE_NAMESRV_CONFIG may not change, besides those that it never may.",
        values="keys, separated by `;`",
    )

    admin_address_allow_list: str = key(
        "",
        "Addresses and networks from which requests that administrate are taken; empty: any. "
        "Not RocketMQ's.",
        check=parse_networks,
        values="such as 10.0.0.5,10.1.0.0/16,fd00::/8",
    )


@dataclass(frozen=True, slots=True)
class NamesrvConfig(AccessKeys, LogKeys, MetricsKeys, NamesrvKeys):
    """Field names are RocketMQ's keys in snake_case. RocketMQ's name server has no access control
    and no metrics: these keys are those of brokers."""

    metrics_prom_exporter_port: int = key(
        5558, "Port at which metrics are served; 0: any free one.", high=65535
    )

    def __post_init__(self) -> None:
        check_fields(self)
        self.check_access()
        self.check_log()

    @classmethod
    def from_properties(cls, values: Mapping[str, str]) -> NamesrvConfig:
        """From a namesrv.conf's values. ConfigError for keys unknown or out of bounds."""
        return from_properties(cls, values, OTHER_KEYS)


RunningConfig = LiveConfig[NamesrvConfig]
