"""The checks of `pyrmq doctor` about limits, kernel, clock, versions and secrets, by readings that
are injected, and the table of all checks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pyrmq.doctor import clock, kernel, limits, secrets_and_keys, versions
from pyrmq.doctor.facts import (
    BROKER,
    NAME_SERVER,
    Certificate,
    Clock,
    Cluster,
    Facts,
    Limits,
    Machine,
    OpenFile,
    Peer,
    Server,
)
from pyrmq.doctor.finding import Finding, Level
from pyrmq.doctor.table import CHECKS, Check, Row, examine, verdict

GIB = 1 << 30
MIB = 1 << 20


def one(check: Check, facts: Facts) -> Finding:
    """The only finding of a check."""
    found = list(check(facts))
    assert len(found) == 1, found
    return found[0]


def levels(check: Check, facts: Facts) -> list[str]:
    return [found.level.value for found in check(facts)]


def broker(machine: Machine | None = None, **values: str) -> Facts:
    return Facts(Server(BROKER, values), machine or Machine())


def name_server(machine: Machine | None = None) -> Facts:
    return Facts(Server(NAME_SERVER, {}), machine or Machine())


@pytest.mark.parametrize(
    ("check", "field", "bad", "good", "level"),
    [
        (limits.open_files, "open_files", 16_383, 16_384, "warning"),
        (limits.open_files, "open_files", 1024, None, "warning"),
        (limits.memory, "memory", 255 * MIB, 1024 * MIB, "error"),
        (limits.memory, "memory", 1023 * MIB, 1024 * MIB, "warning"),
        (limits.cpu, "cpus", 0.5, 1.0, "warning"),
        (limits.cpu, "cpus", 0.5, None, "warning"),
    ],
)
def test_limits(check: Check, field: str, bad: float, good: float | None, level: str) -> None:
    def machine(value: float | None) -> Machine:
        return Machine(memory=64 * GIB, limits=replace(Limits(), **{field: value}))  # type: ignore[arg-type]

    assert levels(check, broker(machine(bad))) == [level]
    assert levels(check, broker(machine(good))) == ["ok"]


def test_a_name_server_needs_little() -> None:
    machine = Machine(memory=64 * GIB, limits=Limits(memory=128 * MIB, cpus=0.2))
    assert levels(limits.memory, name_server(machine)) == ["ok"]
    assert levels(limits.cpu, name_server(machine)) == ["ok"]


def test_memory_of_the_machine_where_no_group_limits_it() -> None:
    assert levels(limits.memory, broker(Machine(memory=200 * MIB))) == ["error"]
    assert levels(limits.memory, broker(Machine())) == ["note"]


def test_locked_memory_only_where_it_is_used() -> None:
    machine = Machine(limits=Limits(locked_memory=8 * MIB))
    assert levels(limits.locked_memory, broker(machine)) == []
    assert levels(limits.locked_memory, broker(machine, warmMapedFileEnable="true")) == ["warning"]
    small = {"warmMapedFileEnable": "true", "mappedFileSizeCommitLog": str(4 * MIB)}
    assert levels(limits.locked_memory, broker(machine, **small)) == ["ok"]
    assert levels(limits.locked_memory, broker(Machine(), warmMapedFileEnable="true")) == ["ok"]


def test_tasks() -> None:
    assert levels(limits.tasks, broker(Machine(limits=Limits(tasks=63)))) == ["warning"]
    assert levels(limits.tasks, broker(Machine(limits=Limits(tasks=64)))) == []
    assert levels(limits.tasks, broker()) == []


@pytest.mark.parametrize(
    ("check", "sysctl", "found"),
    [
        (kernel.max_map_count, {"vm.max_map_count": "65530"}, ["ok"]),
        (kernel.max_map_count, {"vm.max_map_count": "65529"}, ["warning"]),
        (kernel.max_map_count, {}, []),
        (kernel.dirty_pages, {"vm.dirty_ratio": "20", "vm.dirty_bytes": "0"}, ["ok"]),
        (kernel.dirty_pages, {"vm.dirty_ratio": "61"}, ["warning"]),
        (kernel.dirty_pages, {"vm.dirty_ratio": "0", "vm.dirty_bytes": str(MIB)}, ["warning"]),
        (kernel.dirty_pages, {"vm.dirty_ratio": "0", "vm.dirty_bytes": str(GIB)}, ["ok"]),
        (kernel.swappiness, {"vm.swappiness": "60"}, ["warning"]),
        (kernel.swappiness, {"vm.swappiness": "10"}, ["ok"]),
        (kernel.overcommit, {"vm.overcommit_memory": "2"}, ["warning"]),
        (kernel.overcommit, {"vm.overcommit_memory": "1"}, ["ok"]),
        (kernel.zone_reclaim, {"vm.zone_reclaim_mode": "1"}, ["warning"]),
        (kernel.zone_reclaim, {"vm.zone_reclaim_mode": "0"}, []),
        (kernel.somaxconn, {"net.core.somaxconn": "128"}, ["warning"]),
        (kernel.somaxconn, {"net.core.somaxconn": "1024"}, ["ok"]),
        (kernel.somaxconn, {"net.ipv4.tcp_abort_on_overflow": "1"}, ["warning"]),
        (
            kernel.somaxconn,
            {"net.ipv4.tcp_syncookies": "0", "net.ipv4.tcp_max_syn_backlog": "512"},
            ["warning"],
        ),
        (
            kernel.somaxconn,
            {"net.ipv4.tcp_syncookies": "1", "net.ipv4.tcp_max_syn_backlog": "512"},
            [],
        ),
        (
            kernel.connection_tracking,
            {"net.netfilter.nf_conntrack_count": "81", "net.netfilter.nf_conntrack_max": "100"},
            ["error"],
        ),
        (
            kernel.connection_tracking,
            {"net.netfilter.nf_conntrack_count": "80", "net.netfilter.nf_conntrack_max": "100"},
            ["ok"],
        ),
        (kernel.overcommit, {"vm.overcommit_memory": "no number"}, []),
    ],
)
def test_kernel_settings(check: Check, sysctl: dict[str, str], found: list[str]) -> None:
    facts = broker(Machine(sysctl=sysctl, memory=4 * GIB, swap=GIB))
    assert levels(check, facts) == found


def test_swappiness_does_not_matter_without_swap() -> None:
    machine = Machine(sysctl={"vm.swappiness": "60"}, swap=0)
    assert levels(kernel.swappiness, broker(machine)) == ["ok"]


def test_a_store_with_more_queues_than_can_be_mapped() -> None:
    machine = Machine(sysctl={"vm.max_map_count": "65530"}, queues=49_147)
    found = one(kernel.max_map_count, broker(machine))
    assert found.level == Level.WARNING
    assert "vm.max_map_count=655360" in found.change
    assert levels(kernel.max_map_count, broker(replace(machine, queues=49_146))) == ["ok"]


@pytest.mark.parametrize(
    ("enabled", "defrag", "found"),
    [
        ("always", "always", ["warning"]),
        ("always", "madvise", ["ok"]),
        ("madvise", "always", ["ok"]),
        ("", "", []),
    ],
)
def test_huge_pages(enabled: str, defrag: str, found: list[str]) -> None:
    machine = Machine(huge_pages={"enabled": enabled, "defrag": defrag})
    assert levels(kernel.huge_pages, broker(machine)) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [("5.14.0-1.el9", "ok"), ("6.1", "ok"), ("5.13.19-generic", "warning"), ("odd", "note")],
)
def test_kernel_versions(text: str, found: str) -> None:
    assert levels(kernel.version, broker(Machine(kernel=text))) == [found]


@pytest.mark.parametrize(
    ("found", "level"),
    [
        (None, "note"),
        (Clock(False, 0), "warning"),
        (Clock(True, 600_000), "warning"),
        (Clock(True, 20_000), "ok"),
    ],
)
def test_the_clock(found: Clock | None, level: str) -> None:
    assert levels(clock.synchronised, broker(Machine(clock=found))) == [level]


@pytest.mark.parametrize(
    ("ahead", "found"),
    [(None, []), (2.9, ["ok"]), (-3.1, ["warning"]), (31.0, ["error"]), (-31.0, ["error"])],
)
def test_clocks_of_brokers(ahead: float | None, found: list[str]) -> None:
    peer = Peer("broker-b", 0, "10.0.0.2:10911", ahead=ahead)
    facts = replace(broker(), cluster=Cluster(peers=(peer,)))
    assert levels(clock.beside_others, facts) == found


@pytest.mark.parametrize(
    ("version", "level"), [((3, 10, 9), "error"), ((3, 12, 1), "ok"), ((3, 15, 0), "warning")]
)
def test_python(version: tuple[int, int, int], level: str) -> None:
    assert levels(versions.python, broker(Machine(python=version))) == [level]


def test_the_engine_and_packages() -> None:
    assert levels(versions.engine, broker(Machine(release_build=False))) == ["warning"]
    assert levels(versions.engine, broker(Machine(release_build=True))) == ["ok"]
    machine = Machine(packages={"trio": None, "lz4": "it is not installed"})
    found = one(versions.packages, broker(machine))
    assert (found.level, found.change) == (Level.ERROR, "pip install 'lz4'")
    assert levels(versions.packages, broker(Machine(packages={"trio": None}))) == ["ok"]


def test_another_distribution_with_the_same_import_package() -> None:
    found = one(versions.import_package, broker(Machine(import_package="PyRMQ 4.0.0 is there")))
    assert (found.level, found.what) == (Level.ERROR, "PyRMQ 4.0.0 is there")
    assert "pip uninstall PyRMQ" in found.change
    assert levels(versions.import_package, broker(Machine())) == ["ok"]


def test_versions_of_brokers_and_clients() -> None:
    peers = (
        Peer("a", 0, "h:1", version="V5_3_3", clients={"JAVA V5_1_0": 2}),
        Peer("b", 0, "h:2", version="V4_9_4", clients={"JAVA V5_1_0": 1}),
    )
    facts = replace(broker(), cluster=Cluster(peers=peers))
    assert levels(versions.brokers, facts) == ["note"]
    assert levels(versions.brokers, replace(facts, cluster=Cluster(peers=peers[:1]))) == ["ok"]
    assert one(versions.clients, facts).what == "clients: JAVA V5_1_0 (3)"


def test_files_with_secrets() -> None:
    file = OpenFile(Path("/etc/broker.conf"), 0o644, "it has secrets")
    found = one(secrets_and_keys.modes, Facts(Server(BROKER, {}, open_files=(file,))))
    assert (found.level, found.change) == (Level.ERROR, "chmod 600 /etc/broker.conf")
    assert levels(secrets_and_keys.modes, broker()) == []


@pytest.mark.parametrize(
    ("days", "problem", "level"),
    [(31, "", "ok"), (29, "", "warning"), (0, "", "error"), (None, "no such file", "error")],
)
def test_certificates(days: float | None, problem: str, level: str) -> None:
    now = 1_000_000_000.0
    until = None if days is None else now + days * 86_400
    certificate = Certificate(Path("/c.pem"), "tls.server.certPath", until, problem)
    facts = Facts(Server(BROKER, {}, certificates=(certificate,)), Machine(now=now))
    assert levels(secrets_and_keys.certificates, facts) == [level]


def test_the_table_runs_without_any_reading() -> None:
    """What could not be read is no fault, and ends no check."""
    for facts in (broker(), name_server()):
        rows = examine(facts)
        assert {row.check for row in rows} <= set(CHECKS)
        errors = {row.check for row in rows if row.level == "error"}
        assert errors == {"Python"}  # 0.0.0


def test_each_warning_says_why_and_what_to_change() -> None:
    machine = Machine(
        sysctl={"vm.overcommit_memory": "2"}, limits=Limits(open_files=5), clock=Clock(False, 0)
    )
    for row in examine(broker(machine)):
        if row.level in ("warning", "error"):
            assert row.why, row
            assert row.change, row


def row(level: str) -> Row:
    return Row("x", level, "", "", "")


def test_the_verdict_is_the_worst() -> None:
    assert verdict([row("ok"), row("note")]) == Level.OK
    assert verdict([row("ok"), row("warning"), row("note")]) == Level.WARNING
    assert verdict([row("warning"), row("error")]) == Level.ERROR
    assert verdict([]) == Level.OK
