"""What consumers commit at a slave while its master is away: who hands it over, who takes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from pyrmq.broker.replication.slave_sync import SlaveSync
from pyrmq.broker.tables.offsets import OffsetTable
from pyrmq.errors import NoPermissionError, ResponseError
from pyrmq.model.names import TRANSACTION_GROUP


async def saved(table: OffsetTable, path: Path) -> OffsetTable:
    """The table of the next start."""
    await table.save_if_changed()
    return OffsetTable(path, 500)


class Channel:
    """A master that answers UPDATE_CONSUMER_OFFSET out of its table."""

    def __init__(self, table: OffsetTable, error: Exception | None = None) -> None:
        self.table = table
        self.error = error
        self.asked: list[dict[str, Any]] = []

    async def request(self, code: int, ext: dict[str, Any], *, timeout: float) -> Any:
        self.asked.append(ext)
        if self.error is not None:
            raise self.error
        place = ext["topic"], ext["consumerGroup"], ext["queueId"], ext["commitOffset"]
        taken = self.table.take_over(*place)
        answer = {"ext": {"taken": str(taken).lower()}}
        return cast("Any", type("Answer", (), answer))


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        # l: in the file at the start; c: committed here; r: reset by an operator; x: removed;
        # s: a slave hands it over; p: the group pulls from there; ! : this broker starts again.
        ("l100 s150", 150),
        ("s150", 150),  # a group that is new since
        ("l100 s90", 100),
        ("l100 s150 s160 s155", 160),  # of two slaves the one that is further
        ("l100 c120 s150", 120),  # its consumers are back
        ("c120 s150", 120),
        ("l100 r50 s150", 50),
        ("l100 r100 s150", 100),
        ("l100 r50 p50 s150", 50),
        ("l100 r50 ! s150", 50),  # the group has not heard of it
        ("l100 r50 p50 ! s150", 150),  # it has
        ("r50 ! s150", 50),
        ("l100 x s150", None),
        ("l100 s150 c140 s160", 140),
        ("l100 s150 ! s160", 160),
    ],
)
async def test_whose_word_counts(tmp_path: Path, steps: str, expected: int | None) -> None:
    path = tmp_path / "consumerOffset.json"
    table = OffsetTable(path, 500)
    for step in steps.split():
        value = int(step[1:] or 0)
        match step[0]:
            case "l":
                table.commit("T", "G", 0, value)
                table = await saved(table, path)
            case "c":
                table.commit("T", "G", 0, value)
            case "r":
                table.reset("T", "G", 0, value)
            case "p":
                assert table.moved(("T", "G", 0), value) is None
            case "x":
                table.remove("T", "G")
            case "s":
                table.take_over("T", "G", 0, value)
            case _:
                table = await saved(table, path)
    assert table.query("T", "G", 0) == expected


def test_removals_that_are_remembered_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker may live for years, and topics come and go."""
    monkeypatch.setattr("pyrmq.broker.tables.offsets.MAX_GONE", 10)
    table = OffsetTable(tmp_path / "x.json", 500)
    for n in range(100):
        table.commit("T", f"G{n}", 0, 5)
        table.remove("T", f"G{n}")
    assert len(table._gone) == 10
    assert not table.take_over("T", "G99", 0, 5)


def test_a_group_of_the_broker_s_own_is_nobody_else_s(tmp_path: Path) -> None:
    with pytest.raises(NoPermissionError):
        OffsetTable(tmp_path / "x.json", 500).take_over("T", TRANSACTION_GROUP, 0, 5)


@pytest.fixture
def offsets(tmp_path: Path) -> OffsetTable:
    return OffsetTable(tmp_path / "slave.json", 500)


@pytest.fixture
def sync(tmp_path: Path, offsets: OffsetTable) -> SlaveSync:
    nothing = cast("Any", None)
    sync = SlaveSync(tmp_path, nothing, nothing, offsets, nothing, nothing, lambda: True)
    offsets.here = sync._here
    return sync


async def round_with(sync: SlaveSync, channel: Channel) -> None:
    rows = {"@".join(key): dict(queues) for key, queues in channel.table.offsets.items()}
    await sync._sync_offsets({"offsetTable": rows})
    await sync._hand_over(cast("Any", channel))


async def test_what_was_committed_here_is_handed_over_once(
    tmp_path: Path, sync: SlaveSync, offsets: OffsetTable
) -> None:
    master = OffsetTable(tmp_path / "master.json", 500)
    master.commit("T", "G", 0, 100)
    master.commit("T", "other", 0, 70)
    master = await saved(master, tmp_path / "master.json")
    channel = Channel(master)
    await round_with(sync, channel)
    offsets.commit("T", "G", 0, 150)
    offsets.commit("T", "new", 3, 8)
    for _ in range(3):
        await round_with(sync, channel)
    assert sorted(ext["commitOffset"] for ext in channel.asked) == [8, 150]
    assert (master.query("T", "G", 0), master.query("T", "new", 3)) == (150, 8)
    assert master.query("T", "other", 0) == 70
    assert not sync._here
    # From here on the master's word counts again, also where an operator sets it back.
    master.reset("T", "G", 0, 10)
    await round_with(sync, channel)
    assert offsets.query("T", "G", 0) == 10
    assert len(channel.asked) == 2


async def test_a_slave_that_starts_again_still_knows_what_was_committed_there(
    tmp_path: Path, sync: SlaveSync, offsets: OffsetTable
) -> None:
    offsets.keep("T", "copied", 0, 5)
    offsets.commit("T", "G", 3, 150)
    again = await saved(offsets, tmp_path / "slave.json")
    assert again.found_here == {("T", "G", 3)}
    # As a master it has nobody to tell.
    again.commit("T", "G", 3, 151)
    again = await saved(again, tmp_path / "slave.json")
    assert not again.found_here


async def test_what_the_master_does_not_take_is_given_up(
    tmp_path: Path, sync: SlaveSync, offsets: OffsetTable
) -> None:
    master = OffsetTable(tmp_path / "master.json", 500)
    master.commit("T", "G", 0, 100)
    channel = Channel(master)
    await round_with(sync, channel)
    offsets.commit("T", "G", 0, 150)
    master.reset("T", "G", 0, 60)  # before this slave is back
    await round_with(sync, channel)
    assert master.query("T", "G", 0) == 60
    assert offsets.query("T", "G", 0) == 60
    assert not sync._here


@pytest.mark.parametrize("error", [NoPermissionError("no"), ResponseError("not yet")])
async def test_what_is_refused_is_tried_again(
    tmp_path: Path,
    sync: SlaveSync,
    offsets: OffsetTable,
    error: Exception,
    caplog: pytest.LogCaptureFixture,
) -> None:
    master = OffsetTable(tmp_path / "master.json", 500)
    channel = Channel(master, error)
    offsets.commit("T", "G", 0, 150)
    for _ in range(3):
        await round_with(sync, channel)
    assert len(channel.asked) == 3
    assert caplog.text.count("does not take offsets") == 1
    channel.error = None
    await round_with(sync, channel)
    assert master.query("T", "G", 0) == 150


async def test_what_is_refused_for_long_holds_nothing_up(
    tmp_path: Path,
    sync: SlaveSync,
    offsets: OffsetTable,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """More than one round hands over, of a group that the master does not have."""
    monkeypatch.setattr("pyrmq.broker.replication.slave_sync.MAX_HANDED_OVER", 3)

    class Picky(Channel):
        async def request(self, code: int, ext: dict[str, Any], *, timeout: float) -> Any:
            self.error = ResponseError("no group") if ext["consumerGroup"] == "gone" else None
            return await super().request(code, ext, timeout=timeout)

    master = OffsetTable(tmp_path / "master.json", 500)
    for queue in range(10):
        offsets.commit("T", "gone", queue, 5)
    offsets.commit("T", "G", 0, 150)
    channel = Picky(master)
    for _ in range(4):
        await round_with(sync, channel)
    assert master.query("T", "G", 0) == 150
    before = len(channel.asked)
    for _ in range(4):
        await round_with(sync, channel)
    assert len({ext["queueId"] for ext in channel.asked[before:]}) == 10  # in turns
