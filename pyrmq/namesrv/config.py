"""The name server's configuration: NamesrvConfig and NettyServerConfig keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyrmq.net.admin_access import parse_networks
from pyrmq.net.config_table import FixedKey, UnusedKey, check_fields, from_properties, key

_THREADS = "there are no thread pools here: trio runs everything"

OTHER_KEYS: tuple[FixedKey | UnusedKey, ...] = (
    FixedKey("orderMessageEnable", ("false",)),
    FixedKey("supportActingMaster", ("false",)),
    FixedKey("enableControllerInNamesrv", ("false",)),
    FixedKey("clusterTest", ("false",)),
    FixedKey("needWaitForService", ("false",)),
    FixedKey("deleteTopicWithBrokerRegistration", ("false",)),
    FixedKey("notifyMinBrokerIdChanged", ("false",)),
    FixedKey("enableAllTopicList", ("true",)),
    FixedKey("enableTopicList", ("true",)),
    UnusedKey("rocketmqHome", "nothing is read from there"),
    UnusedKey("kvConfigPath", "there is no KV configuration in this version"),
    UnusedKey("configStorePath", "the file given with -c is the only one"),
    UnusedKey("productEnvName", "it belongs to clusterTest"),
    UnusedKey("clientRequestThreadPoolNums", _THREADS),
    UnusedKey("defaultThreadPoolNums", _THREADS),
    UnusedKey("serverWorkerThreads", _THREADS),
    UnusedKey("serverSelectorThreads", _THREADS),
    UnusedKey("serverCallbackExecutorThreads", _THREADS),
)
"""RocketMQ's keys for which NamesrvConfig has no field."""


@dataclass(frozen=True, slots=True)
class NamesrvConfig:
    """Field names are RocketMQ's keys in snake_case."""

    listen_port: int = key(
        9876, "Port to listen on; 0: any free one.", high=65535, section="Connections and brokers"
    )
    bind_address: str = key("0.0.0.0", "Address to listen on.")
    scan_not_active_broker_interval: int = key(
        5000, "ms between two rounds that remove expired brokers.", low=10, high=86_400_000
    )
    server_channel_max_idle_time_seconds: int = key(
        120, "Seconds after which an idle connection is closed.", low=1, high=86_400
    )

    admin_address_allow_list: str = key(
        "",
        "Addresses and networks from which requests that administrate are taken; empty: any. "
        "Not RocketMQ's.",
        check=parse_networks,
        values="such as 10.0.0.5,10.1.0.0/16,fd00::/8",
    )

    def __post_init__(self) -> None:
        check_fields(self)

    @classmethod
    def from_properties(cls, values: Mapping[str, str]) -> NamesrvConfig:
        """From a namesrv.conf's values. ConfigError for keys unknown or out of bounds."""
        return from_properties(cls, values, OTHER_KEYS)
