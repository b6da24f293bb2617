"""The broker's keys: RocketMQ's own files start, values out of bounds do not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pyrmq.broker.config import service
from pyrmq.broker.config.broker_config import OTHER_KEYS, BrokerConfig
from pyrmq.config.files import load_file, parse_properties
from pyrmq.config.table import FixedKey, OtherKeys, RenamedKey, UnusedKey, keys_of
from pyrmq.errors import ConfigError
from pyrmq.namesrv import config as namesrv
from pyrmq.namesrv.config import NamesrvConfig

SHIPPED = """
# Licensed to the Apache Software Foundation (ASF) under one or more

brokerClusterName = DefaultCluster
brokerName = broker-a
brokerId = 0
deleteWhen = 04
fileReservedTime = 48
brokerRole = ASYNC_MASTER
flushDiskType = ASYNC_FLUSH
"""
"""conf/broker.conf of the distribution."""

SHIPPED_2M = """
brokerClusterName=DefaultCluster
brokerName=broker-b
brokerId=0
deleteWhen=04
fileReservedTime=48
brokerRole=SYNC_MASTER
flushDiskType=SYNC_FLUSH
"""
ROWS = keys_of(BrokerConfig)
FIELDS = {key: field for key, (field, _) in ROWS.items()}
BOUNDS = sorted((key, (row.low, row.high)) for key, (_, row) in ROWS.items() if row.high < 1 << 62)


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)


def from_text(text: str) -> BrokerConfig:
    return BrokerConfig.from_properties(parse_properties(text))


def test_the_shipped_file_starts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(SHIPPED)
    config = BrokerConfig.from_properties(load_file(file))
    assert (config.broker_name, config.broker_cluster_name) == ("broker-a", "DefaultCluster")
    assert not config.sync_flush
    assert (config.hours, config.file_reserved_time) == ([4], 48)
    assert not caplog.messages


def test_folders_and_hours() -> None:
    config = from_text("storePathRootDir=/s\nreadOnlyCommitLogStorePaths=/c")
    assert config.commit_log_dirs == [Path("/s/commitlog")]
    config = from_text(
        "storePathCommitLog=/a, /b,/c\nreadOnlyCommitLogStorePaths=/c\ndeleteWhen=04;16"
    )
    assert config.commit_log_dirs == [Path("/a"), Path("/b"), Path("/c")]
    assert config.read_only_commit_log_dirs == [Path("/c")]
    assert config.hours == [4, 16]


def test_the_other_shipped_file() -> None:
    config = from_text(SHIPPED_2M)
    assert config.broker_name == "broker-b"
    assert config.sync_flush


def test_defaults_are_rocketmqs() -> None:
    config = BrokerConfig.from_properties({})
    assert (config.listen_port, config.default_topic_queue_nums) == (10911, 8)
    assert config.mapped_file_size_commit_log == 1 << 30
    assert config.mapped_file_size_consume_queue == 6_000_000
    assert (config.max_message_size, config.flush_disk_type) == (4 << 20, "ASYNC_FLUSH")
    assert config.auto_create_topic_enable
    assert config.namesrv_addr == ""


def test_name_server_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "h:1;g:2")
    assert BrokerConfig().namesrv_addr == "h:1;g:2"
    assert BrokerConfig.from_properties({"namesrvAddr": "i:3"}).namesrv_addr == "i:3"


@pytest.mark.parametrize(("key", "bounds"), BOUNDS)
def test_bounds(key: str, bounds: tuple[int, int]) -> None:
    name = FIELDS[key]
    for value in bounds:
        values = {**GOES_WITH.get((key, value), {}), key: str(value)}
        assert getattr(BrokerConfig.from_properties(values), name) == value
    for value in (bounds[0] - 1, bounds[1] + 1):
        with pytest.raises(ConfigError, match=key):
            BrokerConfig.from_properties({key: str(value)})


GOES_WITH = {
    ("brokerId", (1 << 31) - 1): {"brokerRole": "SLAVE"},
    ("minInSyncReplicas", 64): {"inSyncReplicas": "64"},
    ("haSendHeartbeatInterval", 3_599_999): {"haHousekeepingInterval": "3600000"},
    ("haHousekeepingInterval", 100): {"haSendHeartbeatInterval": "10"},
}
"""Keys and values that need others with them."""


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"brokerRole": "SLAVE"}, "needs a brokerId above 0"),
        ({"brokerId": "1"}, "is a slave's"),
        ({"minInSyncReplicas": "2"}, "at most inSyncReplicas"),
        ({"haMasterAddress": "nowhere"}, "haMasterAddress"),
        ({"haMasterAddress": "h:0"}, "port 0 cannot be connected to"),
        ({"haAddressAllowList": "x"}, "haAddressAllowList"),
        ({"haSendHeartbeatInterval": "100", "haHousekeepingInterval": "100"}, "has to be above"),
    ],
)
def test_roles_that_cannot_be_meant(values: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        BrokerConfig.from_properties(values)


def test_every_default_is_within_its_bounds() -> None:
    for key, (low, high) in BOUNDS:
        assert low <= getattr(BrokerConfig(), FIELDS[key]) <= high


def test_bounds_are_those_of_numbers() -> None:
    assert len(BOUNDS) == 67
    assert all(type(getattr(BrokerConfig(), FIELDS[key])) is int for key, _ in BOUNDS)


@pytest.mark.parametrize(
    ("cls", "others"), [(BrokerConfig, OTHER_KEYS), (NamesrvConfig, namesrv.OTHER_KEYS)]
)
def test_no_key_is_there_twice(cls: type[BrokerConfig | NamesrvConfig], others: OtherKeys) -> None:
    names = [*keys_of(cls), *(row.name for row in others)]
    assert len(names) == len(set(names))
    for row in others:
        if isinstance(row, FixedKey):
            for value in row.accepted:
                assert cls.from_properties({row.name: value}) == cls()
            with pytest.raises(
                ConfigError, match=rf"{row.name}=x is not supported.*\({re.escape(row.why)}"
            ):
                cls.from_properties({row.name: "x"})
        elif isinstance(row, UnusedKey):
            assert cls.from_properties({row.name: "x"}) == cls()


def test_choices_and_checks_hold_for_configurations_made_in_python() -> None:
    for field, value in {
        "flush_disk_type": "sync", "broker_name": "a b", "delete_when": "24",
        "broker_ip1": "local host", "namesrv_addr": "host",
    }.items():  # fmt: skip
        with pytest.raises(ConfigError, match=f"={value}: |{value}"):
            BrokerConfig(**{field: value})  # type: ignore[arg-type]


def test_keys_are_spelt_as_rocketmq_spells_them() -> None:
    """One of each kind of name; another spelling would be an unknown key."""
    config = from_text(
        "brokerIP1=10.0.0.1\ncheckCRCOnRecover=false\nmappedFileSizeCommitLog=8192\n"
        "syncFlushTimeout=7\nserverChannelMaxIdleTimeSeconds=60\nnamesrvAddr=h:1"
    )
    assert (config.broker_ip1, config.check_crc_on_recover) == ("10.0.0.1", False)
    assert (config.mapped_file_size_commit_log, config.sync_flush_timeout) == (8192, 7)
    assert config.server_channel_max_idle_time_seconds == 60
    for key in ("brokerIp1", "checkCrcOnRecover", "broker_ip1", "ListenPort"):
        with pytest.raises(ConfigError, match="unknown"):
            BrokerConfig.from_properties({key: "1"})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("flushDiskType", "sync"), ("brokerRole", "SLAVE"), ("brokerId", "1"),
        ("brokerName", ""), ("brokerName", "a b"), ("brokerName", "../x"),
        ("brokerName", "b" * 101), ("brokerClusterName", "a/b"), ("msgTraceTopicName", "ä"),
        ("deleteWhen", "24"), ("deleteWhen", "4,5"), ("deleteWhen", ""), ("maxIndexNum", "1"),
        ("namesrvAddr", "host"), ("namesrvAddr", "host:99999"), ("namesrvAddr", "h:1;:2"),
        ("shortPollingTimeMills", "-1"), ("storeType", "defaultRocksDB"),
        ("transientStorePoolEnable", "true"), ("enableControllerMode", "true"),
    ],
)  # fmt: skip
def test_refused(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=key):
        BrokerConfig.from_properties({key: value})


def test_misspelt_key() -> None:
    with pytest.raises(ConfigError, match="did you mean flushDiskType"):
        from_text("flushDisktype=SYNC_FLUSH")


@pytest.mark.parametrize("host", ["a.b.example", "höst", ""])
def test_the_host_name_becomes_a_broker_name(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service.socket, "gethostname", lambda: host)
    assert BrokerConfig().broker_name == {"a.b.example": "a-b-example", "höst": "h-st"}.get(
        host, "DEFAULT_BROKER"
    )


def test_name_server_config() -> None:
    config = NamesrvConfig.from_properties({"listenPort": "1234", "orderMessageEnable": "false"})
    assert config.listen_port == 1234
    with pytest.raises(ConfigError):
        NamesrvConfig.from_properties({"listenPort": "65536"})
    with pytest.raises(ConfigError, match="unknown"):
        NamesrvConfig.from_properties({"brokerName": "a"})


def test_every_key_with_another_name_has_a_new_one() -> None:
    renamed = [row for row in OTHER_KEYS if isinstance(row, RenamedKey)]
    assert renamed
    for row in renamed:
        assert row.now in keys_of(BrokerConfig)
        with pytest.raises(ConfigError, match=f"{row.name} is now called {row.now}"):
            BrokerConfig.from_properties({row.name: "1"})
    with pytest.raises(ConfigError, match=r"storePathCommitLog=.*is not replaced"):
        BrokerConfig.from_properties({"storePathCommitLog": "${storePathRootDir}/commitlog"})
