"""--commit-group: brokers hear how far a table goes, and delete what it has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import Result

from pyrmq.net.address import format_address
from tests.store.e2e.test_reclaim import TABLES, conf, log_files
from tests.support.client import Client
from tests.support.disk_room import needs_room
from tests.support.operators import create_topic
from tests.support.server import ServerProcess
from tests.support.waiting import eventually
from tests.tables.commands import command, into
from tests.tables.making import World

pytest.importorskip("pyspark")
pytestmark = [
    pytest.mark.slow,
    needs_room,
]
COUNT, QUEUES, UPDATE, QUERY, NOT_FOUND = 40, 2, 15, 14, 22


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    """Its brokers' files have five messages each."""
    with ServerProcess(tmp_path / "store", flush="SYNC_FLUSH", conf=conf()) as running:
        fill(running)
        yield running


def fill(server: ServerProcess) -> None:
    with Client(server.broker) as client:
        create_topic(client, "orders", QUEUES)
        for number in range(COUNT):
            answer = client.send("orders", b"%05d" % number * 600, queue_id=number % QUEUES)
            assert answer.code == 0, answer.remark


def write(world: World, *options: str, group: str = TABLES) -> Result:
    words = [*options, "-t", "orders", *into(world), "--commit-group", group]
    return command("write", *words)


def offsets(server: ServerProcess, group: str = TABLES) -> list[int]:
    """The group's offsets; -1: it has none."""
    with Client(server.broker) as client:
        ask = {"consumerGroup": group, "topic": "orders", "setZeroIfNotFound": "false"}
        answers = [client.call(QUERY, queueId=queue, **ask) for queue in range(QUEUES)]
    return [int(a.ext["offset"]) if a.code != NOT_FOUND else -1 for a in answers]


def begins(server: ServerProcess) -> int:
    return min(log_files([server.store / "commitlog"]))


def bodies(world: World) -> list[bytes]:
    return sorted(world.table().scan(selected_fields=("body",)).to_arrow()["body"].to_pylist())


def test_what_the_table_has_is_deleted_and_the_table_goes_on(
    world: World, server: ServerProcess
) -> None:
    namesrv = format_address(server.namesrv)
    assert begins(server) == 0
    result = write(world, "-n", namesrv)
    assert result.exit_code == 0, result.output
    assert offsets(server) == [COUNT // QUEUES] * QUEUES
    eventually(lambda: begins(server), "files go before their time")
    fill(server)
    result = write(world, "-n", namesrv)
    assert result.exit_code == 0, result.output
    assert bodies(world) == sorted(2 * [b"%05d" % n * 600 for n in range(COUNT)])
    assert offsets(server) == [2 * COUNT // QUEUES] * QUEUES


def test_stores_name_their_brokers(world: World, server: ServerProcess) -> None:
    store = [str(server.store), "--broker-name", "broker-a"]
    assert "give --commit-namesrv" in write(world, *store).output
    result = write(world, *store, "--commit-namesrv", format_address(server.namesrv))
    assert result.exit_code == 0, result.output
    assert offsets(server) == [COUNT // QUEUES] * QUEUES


def test_what_a_killed_run_has_not_told_comes_with_the_next(
    world: World, server: ServerProcess
) -> None:
    namesrv = format_address(server.namesrv)
    assert write(world, "-n", namesrv, group="others").exit_code == 0
    assert offsets(server) == [-1] * QUEUES
    assert write(world, "-n", namesrv).exit_code == 0
    assert offsets(server) == [COUNT // QUEUES] * QUEUES


def test_a_table_of_another_log_deletes_nothing(
    world: World, server: ServerProcess, tmp_path: Path
) -> None:
    """A broker of the same name, with as many messages: its own are in no table."""
    with ServerProcess(tmp_path / "another", flush="SYNC_FLUSH", conf=conf()) as other:
        with Client(other.broker) as client:
            client.send("first", b"so that places differ")
        fill(other)
        store = [str(server.store), "--broker-name", "broker-a"]
        result = write(world, *store, "--commit-namesrv", format_address(other.namesrv))
        assert result.exit_code != 0
        assert "the table is written, but the offsets of group Tables" in result.output
        assert "another one there" in result.output
        lines = [one for one in result.output.splitlines() if one.startswith("the offsets of")]
        assert len(lines) == 1, lines  # it is tried twice: before the run and after it
        assert offsets(other) == [-1] * QUEUES
    assert len(bodies(world)) == COUNT


def test_a_broker_that_refuses(world: World, tmp_path: Path) -> None:
    more = conf(adminAddressAllowList="10.9.9.9")
    with ServerProcess(tmp_path / "store", flush="SYNC_FLUSH", conf=more) as server:
        with Client(server.broker) as client:
            for number in range(4):
                client.send("orders", b"%d" % number, queue_id=number % QUEUES)
        result = write(world, "-n", format_address(server.namesrv))
        assert result.exit_code != 0
        assert "adminAddressAllowList" in result.output
    assert len(bodies(world)) == 4


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["-n", "127.0.0.1:1", "--commit-namesrv", "127.0.0.1:1"], "are told anyway"),
        (["/nowhere"], "give --commit-namesrv"),
    ],
)
def test_options(world: World, options: list[str], text: str) -> None:
    result = write(world, *options)
    assert result.exit_code != 0
    assert text in result.output + str(result.exception)


def test_a_group_that_is_none(world: World) -> None:
    result = write(world, "/nowhere", "--commit-namesrv", "127.0.0.1:1", group="a b")
    assert "--commit-group" in result.output + str(result.exception)


def test_a_broker_that_has_less_than_the_table_hears_nothing(
    world: World, server: ServerProcess, tmp_path: Path
) -> None:
    """It lost its last messages. While the places are compared it may get as many new ones, which
    no table has."""
    with ServerProcess(tmp_path / "another", flush="SYNC_FLUSH", conf=conf()) as other:
        with Client(other.broker) as client:
            create_topic(client, "orders", QUEUES)
            client.send("orders", b"one", queue_id=0)
        store = [str(server.store), "--broker-name", "broker-a"]
        result = write(world, *store, "--commit-namesrv", format_address(other.namesrv))
        assert result.exit_code != 0
        assert "the broker only those before" in result.output
        assert offsets(other) == [-1] * QUEUES
