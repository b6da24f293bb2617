"""Reads all facts about a server. What does not answer in time is a fact too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import trio

from pyrmq.admin.api import Admin
from pyrmq.doctor.cluster_facts import cluster_of
from pyrmq.doctor.disk_facts import disk_of, is_locked, queues_of
from pyrmq.doctor.facts import Disk, Facts, Folder, Server
from pyrmq.doctor.machine import machine_of

DISK_SECONDS = 10.0
"""A file system that takes longer hangs, as one of a network whose server is away does."""
T = TypeVar("T")


async def gather(server: Server, admin: Admin | None) -> Facts:
    """The facts about a server. `admin`: asks name servers; None without any."""
    machine = await trio.to_thread.run_sync(machine_of, server)
    mounts = await _mounts()
    disks = tuple([await _disk(folder, mounts) for folder in server.folders])
    locked = queues = None
    if not any(disk.problem for disk in disks):
        lock = server.lock
        locked = None if lock is None else await _in_time(lambda: is_locked(lock))
        if server.is_broker and server.folders:
            queues = await _in_time(lambda: queues_of(server.folders[0].path))
    cluster = await cluster_of(server, admin)
    return Facts(server, replace(machine, disks=disks, locked=locked, queues=queues), cluster)


async def _mounts() -> str:
    try:
        return await trio.Path("/proc/self/mountinfo").read_text(errors="replace")
    except OSError:
        return ""


async def _disk(folder: Folder, mounts: str) -> Disk:
    found = await _in_time(lambda: disk_of(folder, mounts))
    return found or Disk(folder, problem=f"it did not answer in {DISK_SECONDS:g} s")


async def _in_time(read: Callable[[], T]) -> T | None:
    """None if the file system does not answer: its thread is left behind."""
    with trio.move_on_after(DISK_SECONDS):
        return await trio.to_thread.run_sync(read, abandon_on_cancel=True)
    return None
