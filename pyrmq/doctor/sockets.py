"""Reads who listens on ports of this machine, from /proc."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv6Address, ip_address
from pathlib import Path

from pyrmq.doctor.facts import Listener

LISTEN = "0A"
MAX_TABLE = 64 << 20
"""Most bytes of /proc/net/tcp that are read."""
MAX_PROCESSES = 32_768
COMMAND = 200
"""Most characters of a command line."""


def listeners(
    ports: frozenset[int], lock: Path | None, proc: Path = Path("/proc")
) -> tuple[Listener, ...] | None:
    """Who listens on some ports. None if the system does not tell."""
    sockets: dict[str, tuple[str, int]] = {}
    readable = False
    for name in ("tcp", "tcp6"):
        try:
            with (proc / "net" / name).open("rb") as file:
                text = file.read(MAX_TABLE).decode("ascii", "replace")
        except OSError:
            continue
        readable = True
        for inode, address, port in _listening(text):
            if port in ports:
                sockets[inode] = (address, port)
    if not readable:
        return None
    owners = _owners(set(sockets), proc) if sockets else {}
    found = []
    for inode, (address, port) in sockets.items():
        pid = owners.get(inode, 0)
        command, has_lock = _process(pid, lock, proc) if pid else ("", False)
        found.append(Listener(address, port, pid, command, has_lock))
    return tuple(sorted(found, key=lambda one: (one.port, one.address)))


def _listening(text: str) -> Iterator[tuple[str, str, int]]:
    """Inode, address and port of the sockets that listen."""
    for line in text.splitlines()[1:]:
        parts = line.split()
        if len(parts) < 10 or parts[3] != LISTEN:
            continue
        address, _, port = parts[1].partition(":")
        with suppress(ValueError):
            yield parts[9], _address(address), int(port, 16)


def _address(text: str) -> str:
    """Words of 32 bits in the byte order of the machine. ValueError."""
    raw = bytes.fromhex(text)
    if len(raw) not in (4, 16):
        raise ValueError(text)
    words = struct.unpack(f"={len(raw) // 4}I", raw)
    found = ip_address(struct.pack(f">{len(words)}I", *words))
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return str(mapped or found)


def _owners(inodes: set[str], proc: Path) -> dict[str, int]:
    """By inode, the process that has it open. Those of other accounts are not readable."""
    found: dict[str, int] = {}
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    pids = sorted(int(p.name) for p in proc.iterdir() if p.name.isdecimal())[:MAX_PROCESSES]
    for pid in pids:
        for link in _links(pid, proc):
            if link in wanted:
                found.setdefault(wanted[link], pid)
        if len(found) == len(inodes):
            break
    return found


def _links(pid: int, proc: Path) -> Iterator[str]:
    with suppress(OSError), os.scandir(proc / str(pid) / "fd") as entries:
        for entry in entries:
            with suppress(OSError):
                yield os.readlink(entry.path)


def _process(pid: int, lock: Path | None, proc: Path) -> tuple[str, bool]:
    """Its command line, and whether it has the lock file open."""
    command = ""
    with suppress(OSError), (proc / str(pid) / "cmdline").open("rb") as file:
        command = file.read(4096).replace(b"\0", b" ").decode(errors="replace").strip()[:COMMAND]
    return command, lock is not None and os.path.realpath(lock) in set(_links(pid, proc))
