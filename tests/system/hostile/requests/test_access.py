"""adminAddressAllowList: what strangers may ask for, with every request that the servers take.

`tests/net/unit/test_admin_access.py` says which requests administrate."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest

import pyrmq.testing
from pyrmq.model.request_kinds import ADMIN_REQUESTS
from pyrmq.namesrv import NameServer
from pyrmq.namesrv.config import NamesrvConfig
from pyrmq.server import Running
from tests.support.client import Client
from tests.support.in_thread import InThread
from tests.support.operators import create_topic
from tests.system.hostile.requests import broker_rows, namesrv_rows
from tests.system.hostile.requests.rows import Row
from tests.system.hostile.requests.test_namesrv_requests import serving

OPERATOR, STRANGER = "127.0.0.2", "127.0.0.3"
NO_PERMISSION = 16
NOT_TAKEN = "is not taken from"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InThread[Running]]:
    store = tmp_path_factory.mktemp("access") / "store"
    settings = {"admin_address_allow_list": OPERATOR, "enable_property_filter": True}
    with InThread(functools.partial(pyrmq.testing.broker, store, **settings)) as server:
        with Client(server.look(lambda running: running.broker_address), source=OPERATOR) as client:
            for topic in (broker_rows.TOPIC, broker_rows.VICTIM):
                assert create_topic(client, topic, 4).code == 0
            for group in (broker_rows.GROUP, broker_rows.GROUP_VICTIM):
                assert client.call(200, b'{"groupName":"%b"}' % group.encode()).code == 0
            assert client.send(broker_rows.TOPIC).code == 0
        yield server


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InThread[NameServer]]:
    config = NamesrvConfig(
        listen_port=0,
        bind_address="127.0.0.1",
        kv_config_path=tmp_path_factory.mktemp("namesrv") / "kvConfig.json",
        admin_address_allow_list=OPERATOR,
    )
    with InThread(lambda: serving(config)) as server:
        yield server


@pytest.mark.parametrize("code", broker_rows.ROWS, ids=int)
def test_broker(broker: InThread[Running], code: int) -> None:
    address = broker.look(lambda running: running.broker_address)
    _check(address, code, broker_rows.ROWS[code])


@pytest.mark.parametrize("code", namesrv_rows.ROWS, ids=int)
def test_name_server(namesrv: InThread[NameServer], code: int) -> None:
    address = namesrv.look(lambda server: server.address)
    _check(address, code, namesrv_rows.ROWS[code])


def _check(address: tuple[str, int], code: int, row: Row) -> None:
    """A valid request of a stranger, then of an operator."""
    with Client(address, source=STRANGER) as stranger:
        answer = stranger.request(row.request(code))
        if code in ADMIN_REQUESTS:
            assert answer.code == NO_PERMISSION, answer.remark
            assert NOT_TAKEN in (answer.remark or "")
            assert STRANGER in (answer.remark or "")
            assert not answer.body
        else:
            assert NOT_TAKEN not in (answer.remark or "")
    with Client(address, source=OPERATOR) as operator:
        answer = operator.request(row.request(code))
        assert NOT_TAKEN not in (answer.remark or "")
