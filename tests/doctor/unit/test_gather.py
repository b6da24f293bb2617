"""What `pyrmq doctor` does where something does not answer."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyrmq.admin.api import Admin
from pyrmq.doctor import cluster_facts, gather
from pyrmq.doctor.facts import BROKER, Disk, Folder, Server
from pyrmq.doctor.table import examine

pytestmark = pytest.mark.usefixtures("deadline")


@pytest.fixture
def hanging() -> Iterator[threading.Event]:
    """Until the test ends."""
    event = threading.Event()
    yield event
    event.set()


def _server(folder: Path, *hosts: tuple[str, str], namesrv: tuple[str, ...] = ()) -> Server:
    folders = (Folder(folder, "storePathRootDir"),)
    return Server(BROKER, {}, folders=folders, lock=folder / "lock", name_servers=namesrv,
                  hosts=hosts)  # fmt: skip


async def test_a_disk_that_hangs_is_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hanging: threading.Event
) -> None:
    def disk_of(folder: Folder, mounts: str) -> Disk:
        hanging.wait()
        return Disk(folder)

    monkeypatch.setattr(gather, "disk_of", disk_of)
    monkeypatch.setattr(gather, "DISK_SECONDS", 0.01)
    facts = await gather.gather(_server(tmp_path), None)
    (disk,) = facts.machine.disks
    assert "did not answer" in disk.problem
    assert (facts.machine.locked, facts.machine.queues) == (None, None)
    (row,) = [r for r in examine(facts) if r.check == "folders"]
    assert (row.level, str(tmp_path) in row.what) == ("error", True)


async def test_a_resolver_that_hangs_is_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hanging: threading.Event
) -> None:
    def ask(host: str, *rest: Any, **named: Any) -> list[Any]:
        if host == "slow":
            hanging.wait()
        if host == "none":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [
            (socket.AF_INET, 0, 0, "", ("10.0.0.1", 0)),
            (socket.AF_INET6, 0, 0, "", ("fd00::1", 0, 0, 0)),
            (socket.AF_INET, 0, 0, "", ("10.0.0.1", 0)),
        ]

    monkeypatch.setattr(cluster_facts.socket, "getaddrinfo", ask)
    monkeypatch.setattr(cluster_facts, "RESOLVE_SECONDS", 0.05)
    server = _server(
        tmp_path, ("slow", "brokerIP1"), ("none", "brokerIP2"),
        ("mq", "namesrvAddr"), ("mq", "haMasterAddress"), ("mq", "namesrvAddr"),
    )  # fmt: skip
    found = {one.host: one for one in await cluster_facts.lookups(server)}
    assert list(found) == ["slow", "none", "mq"]
    assert "no answer" in found["slow"].problem
    assert "does not resolve" in found["none"].problem
    assert found["mq"].addresses == ("10.0.0.1", "fd00::1")
    assert found["mq"].keys == ("namesrvAddr", "haMasterAddress")


async def test_name_servers_that_are_none(tmp_path: Path) -> None:
    """One refuses, one accepts and says nothing that is a frame."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        namesrv = ("127.0.0.1:1", address)
        async with Admin(";".join(namesrv), timeout=0.2) as admin:
            facts = await gather.gather(_server(tmp_path, namesrv=namesrv), admin)
    problems = [one.problem for one in facts.cluster.name_servers]
    assert len(problems) == 2
    assert all(problems)
    assert facts.cluster.peers == ()
    errors = [r for r in examine(facts) if r.check == "name servers" and r.level == "error"]
    assert len(errors) == 2
