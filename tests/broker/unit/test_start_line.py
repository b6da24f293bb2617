"""What a server that others can reach logs at its start."""

from __future__ import annotations

import pytest

from pyrmq.auth.exposure import warn_of_access
from pyrmq.broker.config.broker_config import BrokerConfig
from pyrmq.config.table import values_of
from pyrmq.namesrv.config import NamesrvConfig


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_loopback_is_not_warned_of(address: str, caplog: pytest.LogCaptureFixture) -> None:
    warn_of_access("broker a", values_of(BrokerConfig(bind_address=address)), {10911: "listenPort"})
    assert not caplog.records


def test_an_open_broker_names_its_ports(caplog: pytest.LogCaptureFixture) -> None:
    ports = {10911: "listenPort", 10912: "HA port"}
    warn_of_access("broker a\n", values_of(BrokerConfig()), ports)
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith(
        "broker a\\n listens on 0.0.0.0 (listenPort 10911, HA port 10912) without access control: "
    )
    assert "`pyrmq config check --hardening FILE`" in line


def test_an_open_name_server_names_its_own_check(caplog: pytest.LogCaptureFixture) -> None:
    warn_of_access("the name server", values_of(NamesrvConfig()), {9876: "listenPort"})
    (line,) = [record.getMessage() for record in caplog.records]
    assert "`pyrmq config check --hardening --namesrv FILE`" in line
