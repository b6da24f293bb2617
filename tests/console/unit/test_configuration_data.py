"""Keys of servers: defaults, secrets, where servers differ, what would refuse a change."""

from __future__ import annotations

import pytest

from pyrmq.broker.config.broker_config import OTHER_KEYS, BrokerConfig
from pyrmq.config.table import HIDDEN
from pyrmq.console.pages.configuration_data import (
    KeyRow,
    differences,
    rows_of,
    why_not,
)

OURS = {
    "brokerDrain": "NONE",
    "longPollingEnable": "false",
    "fileReservedTime": "72",
    "storePathRootDir": "/data",
    "initAuthenticationUser": '{"username":"a","password":"s3cret"}',
    "onlyInAnotherVersion": "1",
}


def row(name: str, *, ours: bool = True) -> KeyRow:
    return next(r for r in rows_of(OURS, BrokerConfig, ours=ours) if r.name == name)


def test_a_key_has_its_meaning_default_and_state() -> None:
    polling = row("longPollingEnable")
    assert (polling.value, polling.default, polling.changed, polling.live) == (
        "false", "true", True, True,
    )  # fmt: skip
    assert "parked" in polling.doc
    assert row("fileReservedTime").changed is False
    assert row("storePathRootDir").changed is None  # its default is the machine's
    assert row("onlyInAnotherVersion").live is False
    assert [r.name for r in rows_of(OURS, BrokerConfig, ours=True)] == sorted(OURS, key=str.lower)


def test_of_apaches_keys_less_is_known() -> None:
    polling = row("longPollingEnable", ours=False)
    assert (polling.live, polling.changed) == (None, None)
    assert polling.doc


def test_a_secret_is_hidden_also_of_apaches_servers() -> None:
    for ours in (True, False):
        assert row("initAuthenticationUser", ours=ours).value == HIDDEN
    rows = rows_of({"someNewSecretKey": "s3cret"}, BrokerConfig, ours=False)
    assert rows[0].value == HIDDEN
    found = differences(
        {"a": {"aclPassword": "s3cret"}, "b": {"aclPassword": "other"}}, BrokerConfig
    )
    assert found[0].values == ((HIDDEN, ("a",)), (HIDDEN, ("b",)))


def test_differences_name_who_has_what() -> None:
    servers = {
        "a": {"x": "1", "same": "1", "brokerId": "0"},
        "b": {"x": "2", "same": "1", "brokerId": "1"},
        "c": {"same": "1", "brokerId": "2", "x": "2"},
        "d": {"same": "1", "brokerId": "3"},
    }
    (found,) = differences(servers, BrokerConfig)
    assert (found.key, found.values) == (
        "x", (("2", ("b", "c")), ("1", ("a",)), (None, ("d",))),
    )  # fmt: skip
    assert [d.key for d in differences(servers, BrokerConfig, own=True)] == ["brokerId", "x"]
    assert differences({"a": {"x": "1"}}, BrokerConfig) == ()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("longPollingEnable", "true", ""),
        ("longPollingEnable", "maybe", "true or false expected"),
        ("fileReservedTime", "-1", "must be"),
        ("storePathRootDir", "/other", "while the server runs"),
        ("initAuthenticationUser", "x", "secret"),
        ("onlyInAnotherVersion", "2", "while the server runs"),
    ],
)
def test_what_is_known_to_be_refused(name: str, value: str, said: str) -> None:
    found = why_not(row(name), value, BrokerConfig, OTHER_KEYS, ours=True)
    assert (said in found) if said else (found == "")


def test_apaches_servers_are_asked_for_all_but_secrets() -> None:
    def refused(name: str) -> str:
        found = row(name, ours=False)
        return why_not(found, "maybe", BrokerConfig, OTHER_KEYS, ours=False)

    assert refused("longPollingEnable") == ""
    assert "secret" in refused("initAuthenticationUser")
