"""What a table's file says and this version does not understand is written again as it was."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyrmq.broker.config.broker_config import BrokerConfig, LiveConfig
from pyrmq.broker.delay import DelayOffsets
from pyrmq.broker.housekeeping import Housekeeping
from pyrmq.broker.requests.assignment import RequestModes
from pyrmq.broker.tables import config_file
from pyrmq.broker.tables.config_file import PersistentTable, Rows
from pyrmq.broker.tables.groups import Group, GroupTable
from pyrmq.broker.tables.offsets import OffsetTable
from pyrmq.broker.tables.topic_creation import open_topics
from pyrmq.broker.tables.topics import TopicTable
from pyrmq.engine import Store
from pyrmq.model.topic import TopicConfig
from pyrmq.namesrv.kv import KvConfig
from pyrmq.net.server.turns import Turns

FUTURE = b'{ "x" : [1.0,1e2, "\\u00e4", null] }'
"""How nothing here would write it."""
Open = Callable[[Path, BrokerConfig, Store], PersistentTable]


def topics(path: Path, config: BrokerConfig, store: Store) -> PersistentTable:
    opened = open_topics(path, LiveConfig(config), store)
    opened.creation.update(TopicConfig("Made", 4, 4))
    return opened.table


def groups(path: Path, config: BrokerConfig, store: Store) -> PersistentTable:
    table = GroupTable(path, LiveConfig(config))
    table.update(Group("made"))
    return table


def offsets(path: Path, config: BrokerConfig, store: Store) -> PersistentTable:
    table = OffsetTable(path, 500)
    table.commit("Made", "g", 0, 7)
    return table


def delays(path: Path, config: BrokerConfig, store: Store) -> PersistentTable:
    table = DelayOffsets(path, 18)
    table.set([5] * 18, 100)
    return table


def modes(path: Path, config: BrokerConfig, store: Store) -> PersistentTable:
    live = LiveConfig(config)
    topics = open_topics(path.with_name("topics.json"), live, store).table
    groups = GroupTable(path.with_name("subscriptionGroup.json"), live)
    table = RequestModes(path, live, topics, groups)
    table.changed()
    return table


TABLES: list[tuple[str, Open, list[str]]] = [
    ("topicConfigTable", topics, ['"T":7', '"../x" :{"perm":1.50 }', '"a\\/b":{}', '"":{"p":[ ]}']),
    ("subscriptionGroupTable", groups, ['"g": [ 1,2 ]', '"h":null']),
    ("offsetTable", offsets, ['"nonsense":{ 0:1}', '"U@G":7']),
]


@pytest.mark.parametrize(("name", "make", "rows"), TABLES, ids=lambda value: str(value)[:20])
async def test_rows_are_kept_byte_for_byte(
    tmp_path: Path,
    config: BrokerConfig,
    store: Store,
    caplog: pytest.LogCaptureFixture,
    name: str,
    make: Open,
    rows: list[str],
) -> None:
    path = tmp_path / "table.json"
    path.write_text(f'{{"{name}":{{{",".join(rows)}}}}}')
    for _ in range(2):
        caplog.clear()
        table = make(path, config, store)
        table.changed()
        await table.save_if_changed()
        written = path.read_text()
        for row in rows:
            assert row in written, written
        assert "made" in written.lower()
        assert caplog.text.count("kept as they are, and not used") == 1, "one line, not one a row"
        assert f"{len(rows)} rows" in caplog.text
        assert config_file.load(path)["dataVersion"]


@pytest.mark.parametrize(
    "make", [topics, groups, offsets, delays, modes], ids=lambda make: make.__name__
)
async def test_members_of_the_file_are_kept_byte_for_byte(
    tmp_path: Path, config: BrokerConfig, store: Store, make: Open
) -> None:
    path = tmp_path / "table.json"
    version = b'"dataVersion":{"counter":3,"epoch":[4],"stateVersion":2,"timestamp":1}'
    path.write_bytes(b'{"future":' + FUTURE + b"," + version + b"}")
    for _ in range(2):
        await make(path, config, store).save_if_changed()
        assert b'"future":' + FUTURE in path.read_bytes()
        if make is not modes:  # it has none
            written = config_file.load(path)["dataVersion"]
            assert (written["epoch"], written["stateVersion"]) == ([4], 2)


async def test_what_a_kept_part_refers_to_is_written_out(
    tmp_path: Path, config: BrokerConfig, store: Store
) -> None:
    """fastjson writes `$ref` for an object that it has written before: that row may change."""
    path = tmp_path / "table.json"
    path.write_text(
        '{"topicConfigTable":{"T":{"attributes":{"a":"b"}},'
        '"../x":{"attributes":{"$ref":"$.topicConfigTable.T.attributes"}}}}'
    )
    await topics(path, config, store).save_if_changed()
    written = json.loads(path.read_bytes())["topicConfigTable"]
    assert written["../x"] == {"attributes": {"a": "b"}}


async def test_fields_of_a_row_that_is_served_are_kept(
    tmp_path: Path, config: BrokerConfig, store: Store
) -> None:
    path = tmp_path / "table.json"
    row = {"attributes": {"future": "1"}, "perm": 6, "lite": {"ttl": [1, 2.5]}, "readQueueNums": 4}
    path.write_text(json.dumps({"topicConfigTable": {"T": row}}))
    opened = open_topics(path, LiveConfig(config), store)
    table = opened.table
    await opened.creation.change(
        TopicConfig("T", 8, 8)
    )  # as an operator, who does not know the field
    written = json.loads(path.read_bytes())["topicConfigTable"]["T"]
    assert written["lite"] == row["lite"]
    assert written["attributes"] == row["attributes"]
    assert written["readQueueNums"] == 8
    assert "lite" not in table.topics["T"].to_json(), "name servers are not told of it"


@pytest.mark.parametrize("name", ["test.test1", "%RETRY%group+Topic", "a b", "\u00e4", "x" * 200])
async def test_topics_that_only_others_make_can_be_read(
    tmp_path: Path, config: BrokerConfig, store: Store, name: str
) -> None:
    """Nobody can send to them or make them, but their queues are there and the row stays."""
    path = tmp_path / "topics.json"
    row = TopicConfig(name, 4, 4).to_json()
    path.write_text(json.dumps({"topicConfigTable": {name: row}}))
    opened = open_topics(path, LiveConfig(config), store)
    table = opened.table
    assert table.require(name).read_queue_nums == 4
    await opened.creation.change(TopicConfig("Made", 4, 4))
    assert json.loads(path.read_bytes())["topicConfigTable"][name] == row
    again = TopicTable(path, config, store)
    assert again.get(name) == table.get(name)


async def test_a_row_that_is_made_takes_the_place_of_the_kept_one(tmp_path: Path) -> None:
    path = tmp_path / "consumerOffset.json"
    path.write_text('{"offsetTable":{"T@G":7,"U@G":{"0":5,"x":6,"1":"y"}}}')
    table = OffsetTable(path, 500)
    table.commit("T", "G", 0, 3)
    await table.save_if_changed()
    written = config_file.load(path)["offsetTable"]
    assert path.read_text().count('"T@G"') == 1
    assert written == {"T@G": {0: 3}, "U@G": {0: 5, "x": 6, 1: 0}}
    table.commit("U", "G", 1, 2)
    await table.save_if_changed()
    assert config_file.load(path)["offsetTable"]["U@G"] == {0: 5, 1: 2, "x": 6}


async def test_rows_are_kept_until_the_table_has_its_own() -> None:
    values = {"a": 1}
    rows = Rows[str](lambda key: f'"{key}":{values[key]}'.encode())
    rows.keep({"a": b'"a":0', "b": b'"b":0'})
    assert rows.keeps("a")
    assert list(rows.freeze().members()) == [b'"a":0', b'"b":0']
    rows.change("a")
    assert list(rows.freeze().members()) == [b'"a":1', b'"b":0']
    rows.remove("b")
    assert list(rows.freeze().members()) == [b'"a":1']


async def test_offsets_of_a_topic_whose_row_is_kept_stay(
    tmp_path: Path, config: BrokerConfig, store: Store
) -> None:
    path = tmp_path / "topics.json"
    path.write_text('{"topicConfigTable":{"Odd":5}}')
    table = TopicTable(path, config, store)
    offsets = OffsetTable(tmp_path / "consumerOffset.json", 500)
    offsets.commit("Odd", "g", 0, 3)
    offsets.commit("Gone", "g", 0, 3)

    class NoClients:
        def subscription(self, group: str, topic: str) -> None:
            return None

    live = LiveConfig(config)
    nobody: Any = NoClients()
    unused: Any = None
    keeper = Housekeeping(
        live, store, table, GroupTable(tmp_path / "g.json", live), offsets, nobody, unused, unused
    )
    await keeper.drop_offsets()
    assert offsets.topics() == ["Odd"]


async def test_the_name_servers_file(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    path.write_bytes(b'{"future" :' + FUTURE + b',"configTable":{"n":{"k":"v"}},"n":1.0}')
    for value in ("w", "x"):
        kv = KvConfig(path, Turns())
        await kv.change("n", "k", value)
        assert path.read_bytes() == (
            b'{"configTable":{"n":{"k":"%b"}},"future" :' % value.encode() + FUTURE + b',"n":1.0}'
        )
