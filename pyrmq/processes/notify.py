"""Tells the service manager what a server does: systemd's protocol of `sd_notify`.

systemd passes the address of a socket in NOTIFY_SOCKET, and in WATCHDOG_USEC how often it wants to
hear from the process. A supervisor of several brokers passes both to its children
(`pyrmq/processes/watch.py`). A process without them sends nothing. A message that cannot be sent is
logged once; it never ends or delays the server.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import MutableMapping
from typing import Self

from pyrmq.escape import escape

log = logging.getLogger(__name__)

SOCKET = "NOTIFY_SOCKET"
WATCHDOG = "WATCHDOG_USEC"
WATCHDOG_PID = "WATCHDOG_PID"
MAX_ADDRESS = 107
"""Longest address of a Unix socket, bytes."""
MAX_STATUS = 256
"""Longest status text, characters."""
SEND_BUFFER = 1 << 20
"""Bytes; enough that a message waits for nobody."""
MOST_USEC = 1 << 53
PATIENCE = 1.0
"""Seconds that a message about a start or a stop waits for a manager that does not read. The others
are repeated anyway, and wait for nobody."""


class Notifier:
    """`watchdog`: seconds within which the manager wants to hear `alive`; None: it does not.

    `address` is None where no manager listens. Then nothing is sent.
    """

    def __init__(self, address: str | None, watchdog: float | None = None) -> None:
        self.address = address
        self.watchdog = watchdog if address is not None else None
        self._socket: socket.socket | None = None
        self._failed = False
        if address is not None:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
            self._socket.setblocking(False)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)

    @classmethod
    def taken_from(cls, environment: MutableMapping[str, str]) -> Self:
        """What the variables say. They are removed, as they are not meant for children."""
        address = environment.pop(SOCKET, "")
        usec = environment.pop(WATCHDOG, "")
        pid = environment.pop(WATCHDOG_PID, "")
        if not address:
            return cls(None)
        if address[0] not in "/@" or len(os.fsencode(address)) > MAX_ADDRESS or "\0" in address:
            log.warning(
                "%s=%s is ignored: it must be a path or @NAME of at most %d bytes. The service "
                "manager is not told when the server is ready: use Type=exec",
                SOCKET,
                escape(address),
                MAX_ADDRESS,
            )
            return cls(None)
        if pid and pid != str(os.getpid()):
            usec = ""  # meant for the process that started this one
        return cls(address, _seconds(usec))

    def ready(self, status: str = "") -> None:
        """The server serves."""
        self._send("READY=1", *_status(status), wait=PATIENCE)

    def stopping(self, status: str) -> None:
        """The server has begun to stop."""
        self._send("STOPPING=1", *_status(status), wait=PATIENCE)

    def status(self, text: str) -> None:
        """What the server does now, for who looks at the service."""
        self._send(*_status(text))

    def extend(self, seconds: float, status: str = "") -> None:
        """A start or a stop may take so much longer from now on."""
        self._send(f"EXTEND_TIMEOUT_USEC={int(seconds * 1_000_000)}", *_status(status))

    def alive(self) -> None:
        """The server is healthy now: the watchdog may wait again."""
        self._send("WATCHDOG=1")

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send(self, *lines: str, wait: float = 0.0) -> None:
        if self._socket is None or self.address is None or not lines:
            return
        name = self.address
        # An abstract name begins with a zero byte, which systemd writes as "@".
        to = b"\0" + os.fsencode(name[1:]) if name[0] == "@" else os.fsencode(name)
        try:
            self._socket.settimeout(wait)
            self._socket.sendto("\n".join(lines).encode(errors="replace"), to)
        except OSError as e:
            if not self._failed:
                log.warning(
                    "the service manager at %s is not told %s: %s; this is logged once",
                    escape(name),
                    escape(lines[0]),
                    escape(e.strerror or "it does not read"),
                )
            self._failed = True


def _status(text: str) -> list[str]:
    """One line, as the protocol has one value a line."""
    if not text:
        return []
    line = escape(text)
    return ["STATUS=" + (line if len(line) <= MAX_STATUS else line[: MAX_STATUS - 1] + "…")]


def _seconds(usec: str) -> float | None:
    if not usec:
        return None
    if not (usec.isascii() and usec.isdecimal()) or not 0 < int(usec[:20]) < MOST_USEC:
        log.warning("%s=%s is ignored: it is no number of microseconds", WATCHDOG, escape(usec))
        return None
    return int(usec) / 1_000_000
