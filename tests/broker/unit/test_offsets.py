"""Consumer offsets and groups: tables that live in configuration files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from pyrmq.broker.config.broker_config import BrokerConfig, LiveConfig
from pyrmq.broker.tables import config_file, offsets
from pyrmq.broker.tables.groups import PREDEFINED, GroupTable
from pyrmq.broker.tables.offsets import OffsetTable
from pyrmq.broker.tables.offsets_and_queues import bring_back
from pyrmq.errors import NoPermissionError, SystemBusyError
from pyrmq.net import fastjson

_COMMIT = st.tuples(
    st.sampled_from(["T", "%RETRY%g"]),
    st.sampled_from(["g", "h"]),
    st.integers(0, 3),
    st.integers(0, 1 << 60),
)
NOWHERE = Path("/nonexistent/consumerOffset.json")


def text(table: OffsetTable) -> bytes:
    """What the file of a table would hold now."""
    return b"".join(fastjson.parts(table.to_json(), "\n"))


@given(st.lists(_COMMIT))
def test_the_last_commit_counts(commits: list[tuple[str, str, int, int]]) -> None:
    table = OffsetTable(NOWHERE, 1)
    model: dict[tuple[str, str, int], int] = {}
    for topic, group, queue, offset in commits:
        table.commit(topic, group, queue, offset)
        model[topic, group, queue] = offset
    for (topic, group, queue), offset in model.items():
        assert table.query(topic, group, queue) == offset
    assert table.query("T", "g", 4) is None
    assert table.query("U", "g", 0) is None
    written = fastjson.loads_object(text(table))
    entries = {
        (*key.split("@"), queue): offset
        for key, queues in written["offsetTable"].items()
        for queue, offset in queues.items()
    }
    assert entries == model


_OP = st.tuples(st.sampled_from(["commit", "commit", "topic", "group", "one"]), _COMMIT)


@given(st.lists(_OP))
def test_what_is_removed_is_gone(ops: list[tuple[str, tuple[str, str, int, int]]]) -> None:
    """And what is not, is there: in the table, in both of its directories, and in the file."""
    table = OffsetTable(NOWHERE, 1)
    model: dict[tuple[str, str], dict[int, int]] = {}
    for what, (topic, group, queue, offset) in ops:
        if what == "commit":
            table.commit(topic, group, queue, offset)
            model.setdefault((topic, group), {})[queue] = offset
            continue
        doomed = {
            key
            for key in model
            if (what == "group" or key[0] == topic) and (what == "topic" or key[1] == group)
        }
        before = table.version.counter
        if what == "topic":
            assert table.remove_topic(topic) == len(doomed)
        elif what == "group":
            assert table.remove_group(group) == len(doomed)
        else:
            table.remove(topic, group)
        assert (table.version.counter > before) == bool(doomed)
        model = {key: queues for key, queues in model.items() if key not in doomed}
    assert table.offsets == model
    assert sorted(table.topics()) == sorted({topic for topic, _ in model})
    for name in ("T", "%RETRY%g", "U"):
        assert table.groups_of(name) == sorted(g for t, g in model if t == name)
    for name in ("g", "h", "x"):
        assert table.topics_of(name) == sorted(t for t, g in model if g == name)
    written = fastjson.loads_object(text(table))
    assert {
        tuple(key.split("@")): queues for key, queues in written["offsetTable"].items()
    } == model
    assert {g: sorted(topics) for g, topics in written["groupTopicMap"].items()} == {
        g: table.topics_of(g) for _, g in model
    }


async def test_positions_of_pulls_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets, "AT_ONCE", 2)
    table = OffsetTable(NOWHERE, 1)
    for n in range(5):
        for topic in ("T", "U"):
            table.pulled((topic, "g", n), n + 1)
        table.reset("T", "h", n, 3)
    await table.forget(lambda topic, group: topic == "T")
    assert [table.next_pull("T", "g", n) for n in range(5)] == [0] * 5
    assert [table.next_pull("U", "g", n) for n in range(5)] == [1, 2, 3, 4, 5]
    assert table.resets == {}
    assert table.all_of("T", "h") == dict.fromkeys(range(5), 3), "offsets are another matter"


def test_the_broker_keeps_its_own_offsets() -> None:
    table = OffsetTable(NOWHERE, 1)
    table.keep("T", "CID_RMQ_SYS_TRANS", 0, 5)
    with pytest.raises(NoPermissionError):
        table.remove_group("CID_RMQ_SYS_TRANS")
    assert table.query("T", "CID_RMQ_SYS_TRANS", 0) == 5


async def test_offsets_survive(tmp_path: Path) -> None:
    file = tmp_path / "consumerOffset.json"
    table = OffsetTable(file, 1)
    await table.save_if_changed()
    assert not file.exists()
    table.commit("T", "g", 0, 5)
    table.commit("T", "g", 3, 1 << 40)
    table.commit("%RETRY%g", "g", 0, 1)
    await table.save_if_changed()
    again = OffsetTable(file, 1)
    assert again.offsets == table.offsets
    assert again.version == table.version


def test_rocketmqs_file(tmp_path: Path) -> None:
    file = tmp_path / "consumerOffset.json"
    file.write_text(
        '{\n\t"dataVersion":{"counter":3,"stateVersion":0,"timestamp":9},'
        '"groupTopicMap":{"G":["T"]},"offsetTable":{"T@G":{0:12,"1":9},"nonsense":{0:1},"U@G":7}}'
    )
    table = OffsetTable(file, 500)
    assert table.offsets == {("T", "G"): {0: 12, 1: 9}}
    assert table.version.counter == 3


def test_written_form() -> None:
    table = OffsetTable(NOWHERE, 500)
    for topic in ("T", "U"):
        table.commit(topic, "G", 0, 12)
    table.commit("T", "H", 3, 1)
    assert text(table).decode() == (
        '{\n\t"dataVersion":{\n\t\t"counter":0,\n\t\t"stateVersion":0,\n\t\t"timestamp":0\n\t},'
        '\n\t"groupTopicMap":{\n\t\t"G":[\n\t\t\t"T",\n\t\t\t"U"\n\t\t],\n\t\t"H":[\n\t\t\t"T"\n\t\t]'
        '\n\t},\n\t"offsetTable":{\n\t\t"T@G":{\n\t\t\t0:12\n\t\t},\n\t\t"U@G":{\n\t\t\t0:12\n\t\t},'
        '\n\t\t"T@H":{\n\t\t\t3:1\n\t\t}\n\t},\n\t"popStart":0\n}'
    )


async def test_a_file_without_pops_says_so(tmp_path: Path) -> None:
    """A slave's file may be written before the first pop; once promoted it has to know which check
    points are newer than the file. RocketMQ's file says nothing of them."""
    file = tmp_path / "consumerOffset.json"
    table = OffsetTable(file, 1)
    table.commit("T", "G", 0, 1)
    await table.save_if_changed()
    assert OffsetTable(file, 1).pop_start == 0
    file.write_text('{"offsetTable":{}}')
    assert OffsetTable(file, 1).pop_start is None


def test_going_back_is_allowed() -> None:
    table = OffsetTable(NOWHERE, 1)
    table.commit("T", "g", 0, 9)
    table.commit("T", "g", 0, 4)
    assert table.query("T", "g", 0) == 4


@pytest.mark.parametrize(("step", "counter"), [(1, 6), (3, 2), (500, 0), (0, 6)])
def test_the_version_moves_every_few_updates(step: int, counter: int) -> None:
    table = OffsetTable(NOWHERE, step)
    for n in range(6):
        table.commit("T", "g", 0, n)
    assert table.version.counter == counter


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "subscriptionGroup.json"


async def test_groups_are_made_and_survive(file: Path, config: BrokerConfig) -> None:
    table = GroupTable(file, LiveConfig(config))
    made = table.find("g")
    assert made is not None
    assert table.find("g") is made
    assert (made.retry_queue_nums, made.retry_max_times) == (1, 16)
    assert made.enabled("consumeEnable")
    await table.save_if_changed()
    strict = replace(config, auto_create_subscription_group=False)
    again = GroupTable(file, LiveConfig(strict))
    known = again.find("g")
    assert known is not None
    assert known.values == made.values
    assert again.version == table.version
    assert again.find("other") is None


def test_groups_that_are_always_there(file: Path, config: BrokerConfig) -> None:
    strict = replace(config, auto_create_subscription_group=False)
    table = GroupTable(file, LiveConfig(strict))
    assert set(PREDEFINED) <= set(table.groups)
    assert table.find("CID_RMQ_SYS_anything") is not None
    assert table.find("g") is None


@pytest.mark.parametrize("name", ["", "a b", "../x", "g" * 256, "CID_RMQ_SYS_ä"])
def test_groups_that_may_not_be(file: Path, config: BrokerConfig, name: str) -> None:
    table = GroupTable(file, LiveConfig(config))
    before = set(table.groups)
    assert table.find(name) is None
    assert set(table.groups) == before


async def test_what_others_configured_is_kept(file: Path, config: BrokerConfig) -> None:
    """Keys without a use here, too: the file goes back to RocketMQ as it came."""
    group = {"groupName": "g", "retryMaxTimes": 3, "consumeEnable": False, "future": {"x": [1]}}
    forbidden = {"g": {"T": 5}}
    config_file.save(
        file,
        {
            "dataVersion": {"counter": 7, "timestamp": 1},
            "forbiddenTable": forbidden,
            "subscriptionGroupTable": {"g": group, "bad": 1},
        },
    )
    table = GroupTable(file, LiveConfig(config))
    known = table.find("g")
    assert known is not None
    assert known.retry_max_times == 3
    assert not known.enabled("consumeEnable")
    await table.save_if_changed()
    written = config_file.load(file)
    assert group.items() <= written["subscriptionGroupTable"]["g"].items()
    assert written["forbiddenTable"] == forbidden
    assert written["dataVersion"]["counter"] > 7


def test_what_is_no_offset_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "consumerOffset.json"
    path.write_text('{"offsetTable":{"T@g":{0:5,1:"many",2:null,3:-1}}}')
    table = OffsetTable(path, 1)
    assert table.all_of("T", "g") == {0: 5, 1: 0, 2: 0, 3: -1}
    assert [r.levelname for r in caplog.records] == ["ERROR", "ERROR"]
    assert "'many' of queue 1 of T@g" in caplog.text
    assert "None of queue 2 of T@g" in caplog.text


def test_offsets_that_lead_are_brought_back_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "consumerOffset.json"
    path.write_text(
        '{"offsetTable":{"T@g":{0:5,1:9,2:70},"T@h":{0:4},"U@g":{0:7},'
        '"RMQ_SYS_TRANS_HALF_TOPIC@CID_RMQ_SYS_TRANS":{0:99}}}'
    )
    table = OffsetTable(path, 1)
    ends = {("T", 0): 5, ("T", 1): 8, ("T", 2): 0, ("RMQ_SYS_TRANS_HALF_TOPIC", 0): 1}
    assert bring_back(table, lambda topic, queue: ends.get((topic, queue))) == 2
    assert table.all_of("T", "g") == {0: 5, 1: 8, 2: 0}
    assert table.all_of("T", "h") == {0: 4}
    assert table.all_of("U", "g") == {0: 7}, "a topic that is not this broker's"
    assert table.query("RMQ_SYS_TRANS_HALF_TOPIC", "CID_RMQ_SYS_TRANS", 0) == 99
    assert fastjson.loads_object(text(table))["offsetTable"]["T@g"] == {0: 5, 1: 8, 2: 0}
    (line,) = caplog.messages
    assert "group g continues topic T" in line
    assert "queue 1 at 8 instead of 9, queue 2 at 0 instead of 70" in line
    assert bring_back(table, lambda topic, queue: ends.get((topic, queue))) == 0


def test_no_more_offsets_than_the_bound(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Known ones go on; a pull is answered whether its offset is kept or not."""
    monkeypatch.setattr(offsets, "MAX_OFFSETS", 2)
    table = OffsetTable(NOWHERE, 1)
    table.commit("T", "g", 0, 5)
    table.commit_with_pull("T", "g", 1, 5)
    with pytest.raises(SystemBusyError, match="at most 2"):
        table.commit("T", "h", 0, 5)
    table.commit_with_pull("U", "g", 0, 5)
    assert table.query("U", "g", 0) is None
    table.commit("T", "g", 0, 6)
    assert table.query("T", "g", 0) == 6
    assert table.count == 2
    assert len(caplog.records) == 1  # not for each of them
    table.remove("T", "g")
    assert table.count == 0
    table.commit("T", "h", 0, 5)
    assert table.count == 1


def test_what_was_removed_is_remembered_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond them nothing is taken over that may have been removed."""
    monkeypatch.setattr(offsets, "MAX_GONE", 2)
    table = OffsetTable(NOWHERE, 1)
    assert table.take_over("T", "new", 0, 5)
    for group in ("a", "b", "c"):
        table.commit("T", group, 0, 5)
        table.remove("T", group)
    assert not table.take_over("T", "c", 0, 5)
    assert len(table._gone) == 2


def test_a_reset_that_leads_is_brought_back_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A group is not sent behind the messages that come next."""
    path = tmp_path / "consumerOffset.json"
    path.write_text('{"offsetTable":{"T@g":{0:9,1:3}},"resetTable":{"T@g":{0:9,1:3},"U@g":{0:7}}}')
    table = OffsetTable(path, 1)
    ends = {("T", 0): 5, ("T", 1): 8}
    assert bring_back(table, lambda topic, queue: ends.get((topic, queue))) == 2
    assert table.resets == {("T", "g", 0): 5, ("T", "g", 1): 3, ("U", "g", 0): 7}
    assert "reset in queue 0 of topic T to 9, it is sent to 5" in caplog.text
    assert fastjson.loads_object(text(table))["resetTable"]["T@g"] == {0: 5, 1: 3}


class Granted:
    """What the engine has committed, as `PullGrants` tells it; and how much it was asked for at a
    time."""

    def __init__(self, groups: int) -> None:
        self.rows = [("T", f"g{n}", 0, n + 1, n, 1, 2, 300) for n in range(groups)]
        self.asked: list[int | None] = []
        self.revoked = 0

    def drain(self, most: int | None = None) -> list[tuple[object, ...]]:
        self.asked.append(most)
        taken, self.rows = self.rows[:most], self.rows[most:] if most else []
        return taken  # type: ignore[return-value]


async def test_what_the_engine_committed_is_taken_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offsets, "TAKEN_AT_ONCE", 10)
    granted = Granted(95)
    table = OffsetTable(tmp_path / "offsets.json", 1, granted)  # type: ignore[arg-type]
    turns = 0

    async def others() -> None:
        nonlocal turns
        while granted.rows:
            turns += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(others)
        await table.save_if_changed()
    assert turns >= 8
    assert granted.asked == [10] * 10
    assert len(table.offsets) == 95
    assert len(config_file.load(table.path)["offsetTable"]) == 95
    assert await table.take_pullers() == {f"g{n}" for n in range(95)}


async def test_who_asks_for_an_offset_has_all_of_it(tmp_path: Path) -> None:
    """Also while it is being taken in turns."""
    granted = Granted(1000)
    table = OffsetTable(tmp_path / "offsets.json", 1, granted)  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(table.take_granted_in_turns)
        await trio.lowlevel.checkpoint()
        assert granted.rows
        assert table.query("T", "g999", 0) == 999
        assert not granted.rows
    assert len(table.offsets) == 1000
