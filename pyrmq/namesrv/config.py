"""The name server's configuration: NamesrvConfig and NettyServerConfig keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyrmq.net.properties_file import settings

_THREADS = "there are no thread pools here: trio runs everything"


@dataclass(frozen=True, slots=True)
class NamesrvConfig:
    listen_port: int = 9876
    bind_address: str = "0.0.0.0"
    scan_not_active_broker_interval: int = 5000
    """ms"""
    server_channel_max_idle_time_seconds: int = 120

    @classmethod
    def from_properties(cls, values: Mapping[str, str]) -> NamesrvConfig:
        return settings(
            cls,
            values,
            fixed={
                "orderMessageEnable": ("false",),
                "supportActingMaster": ("false",),
                "enableControllerInNamesrv": ("false",),
                "clusterTest": ("false",),
                "needWaitForService": ("false",),
                "deleteTopicWithBrokerRegistration": ("false",),
                "notifyMinBrokerIdChanged": ("false",),
                "enableAllTopicList": ("true",),
                "enableTopicList": ("true",),
            },
            without_effect={
                "rocketmqHome": "nothing is read from there",
                "kvConfigPath": "there is no KV configuration in this version",
                "configStorePath": "the file given with -c is the only one",
                "productEnvName": "it belongs to clusterTest",
                "clientRequestThreadPoolNums": _THREADS,
                "defaultThreadPoolNums": _THREADS,
                "serverWorkerThreads": _THREADS,
                "serverSelectorThreads": _THREADS,
                "serverCallbackExecutorThreads": _THREADS,
            },
            bounds={
                "listenPort": (0, 65535),
                "scanNotActiveBrokerInterval": (10, 86_400_000),
                "serverChannelMaxIdleTimeSeconds": (1, 86_400),
            },
        )
