"""Groups that consumers make: how many, which of them expire, and what the file says of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyrmq.broker.config.broker_config import BrokerConfig, LiveConfig
from pyrmq.broker.tables import config_file, groups
from pyrmq.broker.tables.groups import PREDEFINED, Group, GroupTable
from pyrmq.errors import ResponseError
from tests.support.build import FakeConnection

Make = Callable[..., GroupTable]
NO_GROUP = 26
LIMIT = 1600
STEP = LIMIT // 16


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000_000
        monkeypatch.setattr(groups, "now_ms", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def make(tmp_path: Path, config: BrokerConfig) -> Make:
    def build(**settings: object) -> GroupTable:
        changed = LiveConfig(replace(config, **settings))
        return GroupTable(tmp_path / "subscriptionGroup.json", changed)

    return build


def refusal(table: GroupTable, name: str, by: Any = None) -> str:
    with pytest.raises(ResponseError) as caught:
        table.require(name, by)
    assert caught.value.code == NO_GROUP
    return str(caught.value)


def test_a_connection_makes_so_many(make: Make) -> None:
    table = make(max_new_groups_per_connection=3)
    greedy, other = FakeConnection(), FakeConnection()
    for n in range(3):
        table.require(f"g{n}", greedy)
    assert "maxNewGroupsPerConnection=3" in refusal(table, "g3", greedy)
    assert table.find("g3", greedy) is None
    assert table.require("g2", greedy) is table.groups["g2"], "what is there it may use"
    table.require("g3", other)
    table.require("g3", greedy)
    assert table.remove("g0")
    assert "maxNewGroupsPerConnection=3" in refusal(table, "g0", greedy), "made is made"
    greedy.close()
    table.require("g4", FakeConnection())


def test_consumers_make_so_many_in_all(make: Make) -> None:
    table = make(max_auto_created_groups=2)
    for name in ("a", "b"):
        table.update(Group(name))
    for name in ("c", "d"):
        table.require(name, FakeConnection())
    assert "maxAutoCreatedGroups=2" in refusal(table, "e", FakeConnection())
    table.update(Group("e"))  # an operator still can
    table.update(Group("c"))  # and takes a group over
    table.require("f", FakeConnection())
    assert "maxAutoCreatedGroups=2" in refusal(table, "g")
    assert table.remove("d")
    table.require("g")


def test_refusals_say_why(make: Make) -> None:
    assert "autoCreateSubscriptionGroup=false" in refusal(
        make(auto_create_subscription_group=False), "g"
    )
    assert "is illegal" in refusal(make(), "a b")
    assert len(refusal(make(), "x" * 100_000)) < 1000


def unused(table: GroupTable) -> list[str]:
    return [name for name in table.auto_created() if table.is_unused(name)]


def test_removing(make: Make) -> None:
    table = make()
    counter = table.version.counter
    assert not table.remove("g")
    assert table.version.counter == counter
    table.update(Group("g", {"retryMaxTimes": 3}))
    assert table.remove("g")
    assert "g" not in table.groups
    assert table.version.counter == counter + 2
    assert table.require("g").retry_max_times == 16, "one that is made again is new"


async def test_what_is_removed_stays_away(make: Make, tmp_path: Path) -> None:
    config_file.save(
        tmp_path / "subscriptionGroup.json",
        {
            "forbiddenTable": {"g": {"T": 4}, "h": {"T": 4}},
            "subscriptionGroupTable": {"g": {"groupName": "g"}, "h": {"groupName": "h"}},
        },
    )
    table = make()
    table.require("auto")
    await table.save_if_changed()
    for name in ("g", "auto"):
        assert table.remove(name)
    await table.save_if_changed()
    written = config_file.load(table.path)
    assert written["forbiddenTable"] == {"h": {"T": 4}}
    assert written["autoCreated"] == {}
    assert written["subscriptionGroupTable"].keys() == {"h", *PREDEFINED}
    assert make().groups.keys() == {"h", *PREDEFINED}


async def test_groups_that_nobody_uses(make: Make, clock: Clock) -> None:
    table = make(auto_created_group_expire_time=LIMIT)
    for name in ("idle", "used", "CID_RMQ_SYS_own"):
        table.require(name)
    table.update(Group("operators"))
    table.require("taken")
    table.update(Group("taken"))
    clock.now += LIMIT
    table.require("used")
    await table.note_used()
    assert unused(table) == [], "times are not exact: a step more has to pass"
    clock.now += STEP + 1
    assert unused(table) == ["idle"]
    clock.now += LIMIT
    assert unused(table) == ["idle", "used"]
    await table.note_used({"idle", "operators", "none"})
    assert unused(table) == ["used"]


async def test_nothing_expires_with_0(make: Make, clock: Clock) -> None:
    table = make(auto_created_group_expire_time=0)
    table.require("idle")
    clock.now += 10**12
    await table.note_used()
    assert unused(table) == []


async def test_times_of_use_survive(make: Make, clock: Clock) -> None:
    table = make(auto_created_group_expire_time=LIMIT)
    table.require("a")
    table.require("b")
    clock.now += LIMIT
    table.require("b")
    await table.note_used()
    await table.save_if_changed()
    clock.now += STEP + 1
    again = make(auto_created_group_expire_time=LIMIT)
    assert unused(again) == ["a"]


async def test_the_file_is_not_written_for_every_use(make: Make, clock: Clock) -> None:
    table = make(auto_created_group_expire_time=LIMIT)
    table.require("a")
    await table.save_if_changed()
    table.path.unlink()
    clock.now += STEP - 1
    table.require("a")
    await table.note_used()
    await table.save_if_changed()
    assert not table.path.exists()
    clock.now += 1
    table.require("a")
    await table.note_used()
    await table.save_if_changed()
    assert table.path.exists()
    clock.now -= LIMIT  # the clock is set back: what is in the future says nothing
    table.require("a")
    await table.note_used()
    clock.now += LIMIT + STEP + 1
    assert unused(table) == ["a"]


def test_groups_of_older_files_are_an_operators(make: Make, clock: Clock, tmp_path: Path) -> None:
    config_file.save(
        tmp_path / "subscriptionGroup.json",
        {
            "autoCreated": {"gone": 1, "b": "x"},
            "subscriptionGroupTable": {"a": {"groupName": "a"}, "b": {"groupName": "b"}},
        },
    )
    table = make(auto_created_group_expire_time=LIMIT, max_auto_created_groups=2)
    clock.now += 2 * LIMIT
    assert unused(table) == ["b"]
    table.require("c")
    assert "maxAutoCreatedGroups=2" in refusal(table, "d")
