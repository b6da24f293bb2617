"""A slave's tables follow its master's: which offset counts, and what is left out."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pyrmq.broker.config.broker_config import BrokerConfig, LiveConfig
from pyrmq.broker.replication import role
from pyrmq.broker.replication.replicating import Replicating
from pyrmq.broker.replication.slave import Master, State
from pyrmq.broker.replication.slave_sync import SlaveSync
from pyrmq.broker.tables.groups import GroupTable
from pyrmq.broker.tables.offsets import OffsetTable
from pyrmq.broker.tables.topic_creation import open_topics
from pyrmq.engine import Store
from pyrmq.model.names import TRANSACTION_GROUP
from pyrmq.net.clock import now_ms


@pytest.fixture
def offsets(tmp_path: Path) -> OffsetTable:
    return OffsetTable(tmp_path / "consumerOffset.json", 500)


@pytest.fixture
def sync(tmp_path: Path, offsets: OffsetTable) -> SlaveSync:
    nothing = cast("Any", None)
    sync = SlaveSync(tmp_path, nothing, nothing, offsets, nothing, nothing, lambda: True)
    offsets.here = sync._here
    return sync


async def follow(sync: SlaveSync, offset: object, key: str = "T@G", queue: object = 0) -> None:
    await sync._sync_offsets({"offsetTable": {key: {queue: offset}}})


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        # m: as the master says; h: committed here; f: copied before, and in the file at a start.
        ("m100", 100),
        ("m100 m150", 150),
        ("m100 m50", 50),  # an operator reset it
        ("m100 h150", 150),
        ("m100 h150 m100", 150),  # the master was away
        ("m100 h150 m98", 150),  # it came back older
        ("m100 h150 m120", 120),  # its consumers are back
        ("m100 h150 m160", 160),
        ("m100 h50 m100", 100),  # to go back is to be told there
        ("h150 m100", 150),  # at a start
        ("f150 m100", 100),  # it was reset, or deleted and begun anew, while this slave was away
        ("h50 m100", 100),
        ("m100 h150 m100 m100 m150 m140", 140),
    ],
)
async def test_which_offset_counts(
    sync: SlaveSync, offsets: OffsetTable, steps: str, expected: int
) -> None:
    for step in steps.split():
        if step[0] == "m":
            await follow(sync, int(step[1:]))
        elif step[0] == "f":
            offsets.keep("T", "G", 0, int(step[1:]))
        else:
            offsets.commit("T", "G", 0, int(step[1:]))
    assert offsets.query("T", "G", 0) == expected


@pytest.mark.parametrize(
    ("key", "queue", "offset"),
    [
        ("T@G", 0, -1),
        ("T@G", 0, 1 << 70),
        ("T@G", -1, 5),
        ("T@G", 1 << 40, 5),
        ("T@G", "x", 5),
        ("T@G", 0, "x"),
        ("TG", 0, 5),
        ("T@G", 0, None),
    ],
)
async def test_what_cannot_be_is_left_out(
    sync: SlaveSync, offsets: OffsetTable, key: str, queue: object, offset: object
) -> None:
    await follow(sync, offset, key, queue)
    assert not offsets.offsets
    await sync._sync_offsets({"offsetTable": 5})
    await sync._sync_offsets({"offsetTable": {"T@G": 5}})
    assert not offsets.offsets


async def test_offsets_that_the_master_has_no_more_go(
    sync: SlaveSync, offsets: OffsetTable
) -> None:
    """Else a deleted group goes on where it was, once this slave is the master."""
    await sync._sync_offsets({"offsetTable": {"T@G": {0: 150}, "T@other": {0: 7}}})
    offsets.commit("T", "new", 1, 5)  # here, while the master was away
    offsets.keep("H", TRANSACTION_GROUP, 0, 3)
    await sync._sync_offsets({"offsetTable": {"T@other": {0: 7}}})
    assert offsets.query("T", "G", 0) is None
    assert offsets.query("T", "other", 0) == 7
    assert offsets.query("T", "new", 1) == 5
    assert offsets.query("H", TRANSACTION_GROUP, 0) == 3
    await follow(sync, 10)  # it begins anew
    assert offsets.query("T", "G", 0) == 10
    await sync._sync_offsets({"offsetTable": {}})  # as of a master that has lost its file
    assert offsets.query("T", "G", 0) == 10


@pytest.mark.parametrize("follows", [True, False])
async def test_the_tables_are_those_of_the_master_that_the_log_follows(
    tmp_path: Path, follows: bool
) -> None:
    """A name server may say by now that a stranger is the master: its log was not compared."""
    compared = Master(("10.0.0.1", 10911), ("10.0.0.1", 10912))
    stranger = Master(("10.0.0.9", 10911), ("10.0.0.9", 10912))

    async def as_name_servers_say() -> Master:
        return stranger

    config = BrokerConfig(broker_role="SLAVE", broker_id=1, namesrv_addr="n:1")
    store = cast("Any", SimpleNamespace(native=None))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pyrmq.broker.replication.replicating.HaSlave", lambda *_, **__: None)
        replicating = Replicating(config, store, [], as_name_servers_say, 0, cast("Any", None))
    assert replicating.replication is not None
    replicating.replication.master = compared
    replicating.replication.state = State.FOLLOWING if follows else State.MISFIT
    assert await replicating.followed() == (compared if follows else stranger)


@pytest.mark.parametrize("since", [None, "5", -1, 1 << 70, 0, 1, 1 << 50])
async def test_a_promoted_slave_is_master_since_later_than_its_master(
    tmp_path: Path, offsets: OffsetTable, since: object
) -> None:
    """Also where the master's clock was ahead: else the older of two masters would stay."""
    nothing = cast("Any", None)
    folder = tmp_path / "config"
    folder.mkdir()
    sync = SlaveSync(folder, nothing, nothing, offsets, nothing, nothing, nothing)
    await sync._keep_since({"masterSince": since})
    now = now_ms()
    own = role.next_since(BrokerConfig(store_path_root_dir=tmp_path))
    assert own > (1 << 50) if since == 1 << 50 else now <= own < now + 60_000


async def test_names_that_only_others_make_are_followed(
    tmp_path: Path,
    config: BrokerConfig,
    store: Store,
    offsets: OffsetTable,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What cannot be followed is told once, not in each round."""
    opened = open_topics(tmp_path / "topics.json", LiveConfig(config), store)
    topics = opened.table
    groups = GroupTable(tmp_path / "groups.json", LiveConfig(config))
    nothing = cast("Any", None)

    class Deletion:
        async def remove(self, gone: list[str], keep: object) -> None:
            assert not gone

    deletion = cast("Any", Deletion())
    sync = SlaveSync(tmp_path, opened, groups, offsets, deletion, nothing, lambda: True)
    for counter in (1, 2):
        version = {"counter": counter}
        rows = {name: {"readQueueNums": 3, "new": 1} for name in ("a.b", "%RETRY%g+t", "../x")}
        rows |= {name: topic.to_row() for name, topic in topics.topics.items()}
        await sync._sync_topics({"dataVersion": version, "topicConfigTable": rows})
        names = {name: {"retryMaxTimes": counter} for name in ("g.1", "a/b")}
        await sync._sync_groups({"dataVersion": version, "subscriptionGroupTable": names})
    for name in ("a.b", "%RETRY%g+t"):
        assert topics.require(name).read_queue_nums == 3
        assert topics.require(name).others == {"new": 1}
    assert groups.existing("g.1").retry_max_times == 2
    assert "../x" not in topics.topics
    assert "a/b" not in groups.groups
    assert caplog.text.count("is left out") == 2
