"""UPDATE_AND_CREATE_SUBSCRIPTIONGROUP and GET_SUBSCRIPTIONGROUP_CONFIG."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pyrmq.testing
from tests.support.client import Client
from tests.support.server import ServerProcess

UPDATE, UPDATE_LIST, GET = 200, 225, 352
NO_GROUP, INVALID_PARAMETER, PULL_FORBIDDEN = 26, 29, 16


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("groups") / "store") as running:
        yield running


@pytest.fixture
def client(server: ServerProcess) -> Iterator[Client]:
    with Client(server.broker) as client:
        yield client


def update(client: Client, **values: Any) -> tuple[int, str | None]:
    answer = client.call(UPDATE, json.dumps(values).encode())
    return answer.code, answer.remark


def shown(client: Client, group: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(client.call(GET, group=group).body)
    return found


def saved(server: ServerProcess) -> dict[str, Any]:
    file = server.store / "config" / "subscriptionGroup.json"
    table: dict[str, Any] = json.loads(file.read_text())["subscriptionGroupTable"]
    return table


def test_a_group_is_in_its_file_when_it_is_answered(server: ServerProcess, client: Client) -> None:
    assert update(client, groupName="Made", retryMaxTimes=3, retryQueueNums=2) == (0, None)
    for table in (shown(client, "Made"), saved(server)["Made"]):
        assert (table["retryMaxTimes"], table["retryQueueNums"]) == (3, 2)
        assert table["consumeEnable"] is True, "what is not said is the default"
    assert update(client, groupName="Made", consumeEnable=False) == (0, None)
    assert shown(client, "Made")["retryMaxTimes"] == 16, "the whole configuration is replaced"


def test_a_group_whose_retry_topic_would_be_too_long(client: Client) -> None:
    name = "g" * 249
    code, remark = update(client, groupName=name)
    assert (code, "at most 248" in (remark or "")) == (INVALID_PARAMETER, True)
    pulled = client.pull("TBW102", 0, 0, group=name)
    assert pulled.code == NO_GROUP
    assert update(client, groupName=name[:248]) == (0, None)
    assert client.heartbeat("client@1", name[:248], "TBW102").code == 0


def test_all_groups(client: Client) -> None:
    assert update(client, groupName="Listed", retryMaxTimes=4) == (0, None)
    wrapper = json.loads(client.call(201).body)
    assert wrapper["subscriptionGroupTable"]["Listed"] == shown(client, "Listed")
    assert {"dataVersion", "forbiddenTable"} <= wrapper.keys()


def test_a_group_that_may_not_consume(client: Client) -> None:
    client.send("Closed")
    assert update(client, groupName="Shut", consumeEnable=False) == (0, None)
    assert client.pull("Closed", 0, 0, group="Shut").code == PULL_FORBIDDEN
    assert update(client, groupName="Shut", consumeEnable=True) == (0, None)
    assert client.pull("Closed", 0, 0, group="Shut").code == 0


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"groupName": 7},
        {"groupName": "../x"},
        {"groupName": "G", "retryMaxTimes": "3"},
        {"groupName": "G", "retryMaxTimes": -2},
        {"groupName": "G", "retryQueueNums": 1 << 20},
        {"groupName": "G", "retryQueueNums": True},
        {"groupName": "G", "consumeEnable": "no"},
        {"groupName": "G", "attributes": [1]},
        {"groupName": "G", "note": "x" * 20_000},
    ],
)
def test_refusals(server: ServerProcess, client: Client, values: dict[str, Any]) -> None:
    code, remark = update(client, **values)
    assert code == INVALID_PARAMETER, remark
    assert client.call(GET, group="G").code == NO_GROUP


@pytest.mark.parametrize("sign", ["+", "-", ""])
def test_unknown_attributes(client: Client, sign: str) -> None:
    code, remark = update(client, groupName="G", attributes={f"{sign}a": "b"})
    assert code == 1
    assert "'a'" in (remark or "")
    assert client.call(GET, group="G").code == NO_GROUP


def test_priority_factor(server: ServerProcess, client: Client) -> None:
    """It is set, kept by changes that do not name it, changed and removed; the file has it."""
    name, key = "Factored", "priority.factor"
    assert update(client, groupName=name, attributes={f"+{key}": "0"}) == (0, None)
    assert update(client, groupName=name, retryMaxTimes=3) == (0, None)
    for table in (shown(client, name), saved(server)[name]):
        assert (table["attributes"], table["retryMaxTimes"]) == ({key: "0"}, 3)
    assert update(client, groupName=name, attributes={f"+{key}": "100"}) == (0, None)
    assert shown(client, name)["attributes"] == {key: "100"}
    for changes in (
        {key: "5"},
        {f"+{key}": "101"},
        {f"+{key}": "-1"},
        {f"+{key}": "half"},
        {f"+{key}": 5},
        {f"+{key}": ""},
        {f"+{key}": "5", f"-{key}": ""},
    ):
        code, remark = update(client, groupName=name, attributes=changes)
        assert (code, key in (remark or "")) == (1, True), changes
    assert shown(client, name)["attributes"] == {key: "100"}
    assert update(client, groupName=name, attributes={f"-{key}": ""}) == (0, None)
    assert shown(client, name)["attributes"] == saved(server)[name]["attributes"] == {}
    code, remark = update(client, groupName=name, attributes={f"-{key}": ""})
    assert (code, "nothing to remove" in (remark or "")) == (1, True)


def test_attributes_of_a_list(client: Client) -> None:
    """What is refused of one group changes none; two changes of one group count both."""
    rows = [{"groupName": "L", "attributes": {"+priority.factor": "7"}}, {"groupName": "M"}]
    wrong = [*rows, {"groupName": "N", "attributes": {"-priority.factor": ""}}]
    assert client.call(UPDATE_LIST, json.dumps({"groupConfigList": wrong}).encode()).code == 1
    assert client.call(GET, group="L").code == NO_GROUP
    rows.append({"groupName": "L", "retryMaxTimes": 2})
    assert client.call(UPDATE_LIST, json.dumps({"groupConfigList": rows}).encode()).code == 0
    group = shown(client, "L")
    assert (group["attributes"], group["retryMaxTimes"]) == ({"priority.factor": "7"}, 2)


def test_attributes_of_a_file_stay(tmp_path: Path) -> None:
    """A change says nothing of them, whether it has an empty object or none."""
    folder = tmp_path / "store" / "config"
    folder.mkdir(parents=True)
    table = {"subscriptionGroupTable": {"G": {"groupName": "G", "attributes": {"a": "b"}}}}
    (folder / "subscriptionGroup.json").write_text(json.dumps(table))
    with (
        pyrmq.testing.broker(tmp_path / "store") as running,
        Client(running.broker_address) as client,
    ):
        for retries, values in ((3, {}), (4, {"attributes": {}})):
            assert update(client, groupName="G", retryMaxTimes=retries, **values) == (0, None)
            group = shown(client, "G")
            assert (group["retryMaxTimes"], group["attributes"]) == (retries, {"a": "b"})


def test_no_json(client: Client) -> None:
    assert client.call(UPDATE, b"[1]").code == 1
    assert client.call(UPDATE, b"").code == 1
