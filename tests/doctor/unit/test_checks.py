"""The checks of `pyrmq doctor` about ports and disks, by readings that are injected."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pyrmq.doctor import (
    disks,
    ports,
)
from pyrmq.doctor.facts import (
    BROKER,
    NAME_SERVER,
    Disk,
    Facts,
    Folder,
    Listener,
    Machine,
    Port,
    Server,
)
from pyrmq.doctor.finding import Finding, Level
from pyrmq.doctor.table import Check

GIB = 1 << 30
MIB = 1 << 20
STORE = Folder(Path("/data/store"), "storePathRootDir")
LOG = Folder(Path("/data/log"), "storePathCommitLog", made=False)


def one(check: Check, facts: Facts) -> Finding:
    """The only finding of a check."""
    found = list(check(facts))
    assert len(found) == 1, found
    return found[0]


def levels(check: Check, facts: Facts) -> list[str]:
    return [found.level.value for found in check(facts)]


def listening(*listeners: Listener, port: Port | None = None, locked: bool | None = None) -> Facts:
    own = port or Port(10911, "listenPort", "0.0.0.0")
    return Facts(
        Server(BROKER, {}, ports=(own,)), Machine(listeners=listeners, locked=locked, user=1000)
    )


@pytest.mark.parametrize(
    ("listener", "level", "said"),
    [
        (None, Level.OK, "is free"),
        (Listener("10.0.0.1", 9999, 7, "other"), Level.OK, "is free"),
        (Listener("10.0.0.1", 10911, 7, "java -jar x"), Level.ERROR, "pid 7 (java -jar x)"),
        (Listener("::", 10911, 0), Level.ERROR, "a process of another account"),
        (Listener("10.0.0.1", 10911, 7, "pyrmq", True), Level.OK, "the running broker, pid 7"),
    ],
    ids=["nobody", "other-port", "taken", "foreign", "own"],
)
def test_a_port(listener: Listener | None, level: Level, said: str) -> None:
    found = one(ports.free, listening(*([listener] if listener else [])))
    assert (found.level, said in found.what) == (level, True), found


@pytest.mark.parametrize(
    ("bind", "address", "level"),
    [
        ("127.0.0.1", "10.0.0.1", Level.OK),
        ("10.0.0.2", "10.0.0.1", Level.OK),
        ("10.0.0.1", "10.0.0.1", Level.ERROR),
        ("10.0.0.1", "0.0.0.0", Level.ERROR),
        ("localhost", "127.0.0.1", Level.ERROR),
    ],
)
def test_a_port_on_another_address_is_another_one(bind: str, address: str, level: Level) -> None:
    facts = listening(Listener(address, 10911, 7, "x"), port=Port(10911, "listenPort", bind))
    assert one(ports.free, facts).level == level


def test_a_port_of_another_account_beside_a_running_broker() -> None:
    assert one(ports.free, listening(Listener("::", 10911), locked=True)).level == Level.NOTE


def test_an_optional_port_that_is_taken_is_a_warning() -> None:
    vip = Port(10909, "VIP port", "", optional=True)
    assert one(ports.free, listening(Listener("::", 10909, 7, "x"), port=vip)).level == (
        Level.WARNING
    )


def test_ports_that_nobody_tells() -> None:
    facts = Facts(Server(BROKER, {}, ports=(Port(1, "listenPort", ""),)), Machine(listeners=None))
    assert one(ports.free, facts).level == Level.NOTE


def test_a_privileged_port() -> None:
    low = listening(port=Port(80, "listenPort", ""))
    sysctl = {"net.ipv4.ip_unprivileged_port_start": "1024"}
    facts = replace(low, machine=replace(low.machine, sysctl=sysctl))
    assert levels(ports.privileged, facts) == ["error"]
    assert levels(ports.privileged, replace(facts, machine=replace(facts.machine, user=0))) == []
    high = replace(facts, server=replace(facts.server, ports=(Port(1024, "listenPort", ""),)))
    assert levels(ports.privileged, high) == []


@pytest.mark.parametrize(
    ("kept", "found"), [("", ["warning"]), ("40000,30000-30010", []), ("30001-x,3", ["warning"])]
)
def test_a_port_of_outgoing_connections(kept: str, found: list[str]) -> None:
    sysctl = {
        "net.ipv4.ip_local_port_range": "30000\t40000",
        "net.ipv4.ip_local_reserved_ports": kept,
    }
    facts = listening(port=Port(30005, "listenPort", ""))
    facts = replace(facts, machine=replace(facts.machine, sysctl=sysctl))
    assert levels(ports.reserved, facts) == found


def on(disk: Disk, server: str = BROKER, **values: str) -> Facts:
    return Facts(Server(server, values), Machine(disks=(disk,)))


@pytest.mark.parametrize(
    ("used", "level"), [(74, "ok"), (75, "warning"), (86, "warning"), (90, "error")]
)
def test_disk_space(used: int, level: str) -> None:
    disk = Disk(STORE, total=1000 * GIB, free=(100 - used) * 10 * GIB)
    assert levels(disks.space, on(disk)) == [level]


def test_disk_space_follows_the_configuration() -> None:
    disk = Disk(STORE, total=1000 * GIB, free=200 * GIB)
    assert levels(disks.space, on(disk, diskMaxUsedSpaceRatio="81")) == ["ok"]
    found = one(disks.space, on(disk, diskSpaceWarningLevelRatio="79"))
    assert (found.level, found.why) == (
        Level.ERROR, "above 79 % (diskSpaceWarningLevelRatio) messages are refused",
    )  # fmt: skip


def test_a_disk_without_room_for_two_log_files() -> None:
    disk = Disk(STORE, total=8 * GIB, free=3 * GIB // 2 + 5 * GIB)
    assert levels(disks.space, on(disk)) == ["ok"]
    assert levels(disks.space, on(disk, mappedFileSizeCommitLog=str(4 * GIB))) == ["error"]


def test_disk_space_of_a_name_server() -> None:
    assert levels(disks.space, on(Disk(STORE, total=GIB, free=GIB // 10), NAME_SERVER)) == ["ok"]
    assert levels(disks.space, on(Disk(STORE, total=GIB, free=MIB), NAME_SERVER)) == ["warning"]


@pytest.mark.parametrize(("free", "found"), [(9, ["warning"]), (10, ["ok"])], ids=["few", "enough"])
def test_inodes(free: int, found: list[str]) -> None:
    assert levels(disks.inodes, on(Disk(STORE, inodes=100, inodes_free=free))) == found
    assert levels(disks.inodes, on(Disk(STORE, inodes=0, inodes_free=0))) == []


@pytest.mark.parametrize(
    ("kind", "of_broker", "of_name_server"),
    [
        ("ext4", "ok", "ok"),
        ("xfs", "ok", "ok"),
        ("tmpfs", "error", "error"),
        ("overlay", "warning", "warning"),
        ("nfs4", "warning", "ok"),
        ("fuse.sshfs", "warning", "ok"),
        ("btrfs", "warning", "ok"),
        ("ext3", "warning", "ok"),
        ("", "note", "note"),
    ],
)
def test_file_systems(kind: str, of_broker: str, of_name_server: str) -> None:
    disk = Disk(STORE, file_system=kind)
    assert levels(disks.file_system, on(disk)) == [of_broker]
    assert levels(disks.file_system, on(disk, NAME_SERVER)) == [of_name_server]


@pytest.mark.parametrize(
    ("options", "of_broker", "of_name_server"),
    [
        ("rw,relatime", [], []),
        ("ro,relatime", ["error"], ["error"]),
        ("rw,sync", ["warning"], []),
        ("rw,nobarrier", ["warning"], []),
        ("rw,barrier=0", ["warning"], []),
        ("rw,strictatime", ["warning"], []),
        ("rw,data=journal", ["warning"], []),
        ("ro,sync,strictatime", ["error", "warning", "warning"], ["error"]),
    ],
)
def test_mount_options(options: str, of_broker: list[str], of_name_server: list[str]) -> None:
    disk = Disk(STORE, mount="/data", options=frozenset(options.split(",")))
    assert levels(disks.mount_options, on(disk)) == of_broker
    assert levels(disks.mount_options, on(disk, NAME_SERVER)) == of_name_server


@pytest.mark.parametrize(
    ("disk", "level"),
    [
        (Disk(STORE), "ok"),
        (Disk(STORE, exists=False), "ok"),
        (Disk(LOG, exists=False), "error"),
        (Disk(STORE, writable=False), "error"),
        (Disk(STORE, problem="it did not answer in 10 s"), "error"),
    ],
    ids=["fine", "to-be-made", "not-mounted", "read-only", "hangs"],
)
def test_folders(disk: Disk, level: str) -> None:
    assert levels(disks.readable, on(disk)) == [level]
    if disk.problem:  # nothing else is known of it
        for check in (disks.space, disks.inodes, disks.file_system, disks.mount_options):
            assert levels(check, on(disk)) == []
