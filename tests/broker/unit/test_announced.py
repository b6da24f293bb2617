"""What a broker gives to others as its address."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from pyrmq.broker import identity
from pyrmq.broker.config.broker_config import BrokerConfig
from pyrmq.broker.identity import with_addresses
from pyrmq.errors import ConfigError

HOSTS = {"mq": "10.0.0.7", "machine": "10.0.0.8", "lonely": "127.0.1.1"}


@pytest.fixture(autouse=True)
def network(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Where the machine is: `route` is its address on the way out."""
    state = {"route": "10.0.0.9", "name": "machine"}

    def resolve(host: str) -> str:
        if host[0].isdigit():
            return host
        if host not in HOSTS:
            raise ConfigError(f"the host name {host!r} does not resolve: nobody knows it")
        return HOSTS[host]

    monkeypatch.setattr(identity, "resolve", resolve)
    monkeypatch.setattr(identity, "own_ip", lambda: state["route"])
    monkeypatch.setattr(identity.socket, "gethostname", lambda: state["name"])
    return state


@pytest.mark.parametrize(
    ("keys", "first", "second"),
    [
        ({}, "10.0.0.9", ""),
        ({"broker_ip1": "10.0.0.1"}, "10.0.0.1", ""),
        ({"broker_ip1": "mq", "broker_ip2": "machine"}, "10.0.0.7", "10.0.0.8"),
        ({"bind_address": "10.0.0.2"}, "10.0.0.2", ""),
        ({"bind_address": "mq", "broker_ip1": "10.0.0.1"}, "10.0.0.1", ""),
    ],
)
def test_addresses(keys: dict[str, str], first: str, second: str) -> None:
    found = with_addresses(replace(BrokerConfig(), **keys))  # type: ignore[arg-type]
    assert (found.broker_ip1, found.broker_ip2) == (first, second)


def test_a_name_without_an_address() -> None:
    with pytest.raises(ConfigError, match="brokerIP2=nowhere: the host name 'nowhere' does not"):
        with_addresses(BrokerConfig(broker_ip2="nowhere"))


def test_a_machine_without_a_route(
    network: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    network["route"] = "127.0.0.1"
    assert with_addresses(BrokerConfig()).broker_ip1 == "10.0.0.8", "the one of its own name"
    assert not caplog.records
    for network["name"] in ("lonely", "unknown"):
        caplog.clear()
        assert with_addresses(BrokerConfig()).broker_ip1 == "127.0.0.1"
        (record,) = caplog.records
        assert record.levelno == logging.WARNING
        assert "set brokerIP1" in record.message
    caplog.clear()
    assert with_addresses(BrokerConfig(bind_address="127.0.0.1")).broker_ip1 == "127.0.0.1"
    assert not caplog.records, "it listens there only"


@pytest.mark.parametrize("text", ["0.0.0.0", "::", "h:10911", "http://h", "a b", "h/x"])
def test_what_nobody_can_connect_to(text: str) -> None:
    with pytest.raises(ConfigError, match="brokerIP1="):
        BrokerConfig(broker_ip1=text)
