"""Every request of the name server, bad in every way: a code, a text that helps, and no trace."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from pyrmq.model.codes import RequestCode
from pyrmq.namesrv import NameServer
from pyrmq.namesrv.config import NamesrvConfig
from tests.support.client import Client
from tests.support.in_thread import InThread
from tests.system.hostile.requests.namesrv_rows import KEPT, ROWS
from tests.system.hostile.requests.rows import Case, Row, all_cases, check_text, check_twice

CASES = all_cases(ROWS)


class Target:
    def __init__(self, server: InThread[NameServer], folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.address = server.look(lambda namesrv: namesrv.address)
        self.client = Client(self.address)

    def known(self) -> dict[str, Any]:
        """All that requests can make, change or delete."""
        file = self.folder / "kvConfig.json"
        saved = file.read_text() if file.exists() else None
        names = sorted(path.name for path in self.folder.iterdir())
        return {**self.server.look(_tables), "kv": saved, "files": names}

    def assert_same(self, before: dict[str, Any]) -> None:
        """Nothing was made, changed or deleted since."""
        now = self.known()
        changed = {key: (before[key], now[key]) for key in before if before[key] != now[key]}
        assert not changed


def _tables(server: NameServer) -> dict[str, Any]:
    routes = server.routes
    return {
        "topics": copy.deepcopy(routes.topics),
        "clusters": copy.deepcopy(routes.clusters),
        "live": {key: dataclasses.astuple(live.version) for key, live in routes.live.items()},
        "config": server.config.now,
    }


@asynccontextmanager
async def serving(config: NamesrvConfig) -> AsyncIterator[NameServer]:
    server = NameServer(config)
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run)
        yield server
        nursery.cancel_scope.cancel()


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("namesrv")
    config = NamesrvConfig(
        listen_port=0, bind_address="127.0.0.1", kv_config_path=folder / "kvConfig.json"
    )
    with InThread(lambda: serving(config)) as server:
        found = Target(server, folder)
        with found.client as client:
            row = ROWS[RequestCode.REGISTER_BROKER]
            place = {"brokerName": KEPT, "brokerAddr": "127.0.0.1:10931"}
            registered = client.request(row.request(RequestCode.REGISTER_BROKER, **place))
            assert registered.code == 0, registered.remark
            yield found


def test_order_configurations_larger_than_an_answer(tmp_path: Path) -> None:
    """An older version has let the table grow: brokers register without it, who asks for it gets an
    error, and it can be made smaller."""
    table = {f"K{n:06}": "broker-a:8;" + "b" * 200 + ":8" for n in range(80_000)}
    path = tmp_path / "kvConfig.json"
    path.write_text(json.dumps({"configTable": {"ORDER_TOPIC_CONFIG": table}}))
    config = NamesrvConfig(listen_port=0, bind_address="127.0.0.1", kv_config_path=path)
    register = ROWS[RequestCode.REGISTER_BROKER].request(RequestCode.REGISTER_BROKER)
    place = {"namespace": "ORDER_TOPIC_CONFIG"}
    with (
        InThread(lambda: serving(config)) as server,
        Client(server.look(lambda namesrv: namesrv.address)) as client,
    ):
        answer = client.request(register)
        assert (answer.code, answer.body) == (0, b""), answer.remark
        answer = client.call(RequestCode.GET_KVLIST_BY_NAMESPACE, **place)
        assert answer.code == 1
        assert "at most 16777216" in (answer.remark or "")
        new = client.call(RequestCode.PUT_KV_CONFIG, key="new", value="broker-a:8", **place)
        assert new.code == 29
        assert client.call(RequestCode.DELETE_KV_CONFIG, key="K000000", **place).code == 0


def test_every_request_has_a_row(target: Target) -> None:
    """The table has what the dispatcher has: a new request comes with its row."""
    codes = target.server.look(lambda server: set(server.processors))
    assert codes == set(ROWS), "a row of namesrv_rows.py for each"
    assert codes <= set(RequestCode), "codes have a name in pyrmq/model/codes.py"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_bad_request(target: Target, case: Case) -> None:
    before = target.known()
    answer = target.client.request(case.request)
    assert answer.code == case.code, f"{answer.code} {answer.remark}"
    if case.code == 0:  # not bad in RocketMQ's eyes
        return
    check_text(answer.remark, case.words)
    assert not answer.body
    target.assert_same(before)
    assert target.client.call(RequestCode.GET_BROKER_CLUSTER_INFO).code == 0


def test_bad_requests_that_nobody_waits_for(target: Target) -> None:
    """One-way: none is answered, nothing is changed, and the connection goes on."""
    before = target.known()
    with Client(target.address) as client:
        for case in CASES:
            if case.code not in (0, 21):
                client.oneway(dataclasses.replace(case.request))
        assert client.call(RequestCode.GET_BROKER_CLUSTER_INFO).code == 0
        assert not client.pushed
    target.assert_same(before)


@pytest.mark.parametrize(("code", "row"), ROWS.items(), ids=lambda value: str(value)[:6])
def test_valid_request_twice_at_once(target: Target, code: int, row: Row) -> None:
    """Both are answered as one is, on one connection and on two."""
    check_twice(target.address, code, row)
