"""Watches processes by what they say through the protocol of `sd_notify`, as systemd does.

`keep_watch` is the end of the process that is watched: it says that it lives, as long as its own
checks find nothing. `Ears` is the end of the supervisor. Its socket has an abstract address that
the kernel chooses. Others on the machine can send to it, so a message counts only with the process
id that the kernel vouches for.
"""

from __future__ import annotations

import logging
import socket
import struct
from collections.abc import Callable, Sequence

import trio

from pyrmq.escape import escape
from pyrmq.net.health import Problem
from pyrmq.processes.notify import SOCKET, WATCHDOG, Notifier

log = logging.getLogger(__name__)

OFTEN = 3
"""How often a process says that it lives within the time that its watchdog waits."""
LONGEST_PAUSE = 20.0
"""Seconds between two looks at the health of a process that is watched, at most."""
SILENCE = 60.0
"""Seconds of silence after which a supervisor takes a broker for hung."""
MAX_MESSAGE = 4096
"""Longest message, bytes; a longer one is not read."""
_CREDENTIALS = struct.Struct("=iII")


async def keep_watch(notifier: Notifier, problems: Callable[[], Sequence[Problem]]) -> None:
    """Tells the manager that the process lives, until cancelled. Says nothing while there are
    problems: the manager then restarts the process."""
    if notifier.watchdog is None:
        return
    said: Sequence[str] = []
    while True:
        found = [f"{problem.what}: {problem.advice}" for problem in problems()]
        if not found:
            notifier.alive()
        elif found != said:
            log.error(
                "not healthy, so the service manager will restart it after %g s: %s",
                notifier.watchdog,
                escape("; ".join(found)),
            )
            notifier.status("not healthy: " + "; ".join(found))
        said = found
        await trio.sleep(min(notifier.watchdog / OFTEN, LONGEST_PAUSE))


class Ears:
    """The supervisor's socket. `run` calls `heard` with the process id and the fields of each
    message. `open` comes first."""

    def __init__(self, heard: Callable[[int, dict[str, str]], None]) -> None:
        self._heard = heard
        self._socket: trio.socket.SocketType | None = None

    def open(self) -> str:
        """The address, as NOTIFY_SOCKET has it."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        sock.bind(b"")  # the kernel chooses an abstract address that is free
        name = sock.getsockname()
        self._socket = trio.socket.from_stdlib_socket(sock)
        return "@" + bytes(name)[1:].decode()

    async def run(self) -> None:
        """Listens until cancelled."""
        assert self._socket is not None
        space = socket.CMSG_SPACE(_CREDENTIALS.size)
        while True:
            try:
                data, ancillary, flags, _ = await self._socket.recvmsg(MAX_MESSAGE, space)
            except OSError as e:  # nobody is restarted for that: brokers are then not watched
                log.error("brokers are not watched any more: %s", escape(e))
                return
            pid = _pid(ancillary)
            if pid is not None and not flags & socket.MSG_TRUNC:
                self._heard(pid, fields_of(data))

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()


def environment(address: str, silence: float) -> dict[str, str]:
    """The variables for a process that is watched."""
    return {SOCKET: address, WATCHDOG: str(int(silence * 1_000_000))}


def fields_of(data: bytes) -> dict[str, str]:
    """The lines NAME=VALUE of a message."""
    lines = data.decode(errors="replace").split("\n")
    return dict(line.partition("=")[::2] for line in lines if "=" in line)


def _pid(ancillary: list[tuple[int, int, bytes]]) -> int | None:
    for level, kind, data in ancillary:
        fits = len(data) >= _CREDENTIALS.size
        if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS and fits:
            pid: int = _CREDENTIALS.unpack_from(data)[0]
            return pid
    return None
