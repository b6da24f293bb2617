"""Waits for the next request and for the event loop at once.

A shift that finds nothing more to do may wait for the next request instead of going back to the
event loop. It must not keep other tasks waiting. So it waits on an epoll of its own that has two
members: the reader's epoll, and the epoll that trio itself waits on. As soon as trio has something
to do (another socket, a call from another thread, a signal), the reader goes back.

trio does not say which descriptor its epoll has. The kernel does: /proc/self/fdinfo lists what each
epoll watches, and only trio's watches the reader's. Where /proc does not say it, the reader does not
wait in this way.
"""

from __future__ import annotations

import os
import select
import time

import trio

SHORTEST = 0.0005
"""Seconds; where less is left the reader goes back at once. epoll counts milliseconds."""


def watcher_of(fd: int) -> int | None:
    """The descriptor of the epoll that watches `fd`; None if there is none, or several."""
    found = []
    try:
        for name in os.listdir("/proc/self/fd"):
            try:
                if os.readlink(f"/proc/self/fd/{name}") != "anon_inode:[eventpoll]":
                    continue
                with open(f"/proc/self/fdinfo/{name}", encoding="ascii") as info:
                    words = [line.split() for line in info if line.startswith("tfd:")]
            except FileNotFoundError:
                continue  # closed meanwhile
            if any(int(word[1]) == fd for word in words):
                found.append(int(name))
    except (OSError, ValueError, IndexError):
        return None
    return found[0] if len(found) == 1 else None


class Patience:
    """`epoll`: the reader's. Used in trio's thread only."""

    def __init__(self, epoll: select.epoll) -> None:
        self._fd = epoll.fileno()
        self._both: select.epoll | None = None
        self._begun = False

    def begin(self) -> None:
        """trio has waited on the reader's epoll, so its own can be found. Later calls do nothing."""
        if self._begun:
            return
        self._begun = True
        loop = watcher_of(self._fd)
        if loop is not None:
            self._both = select.epoll()
            self._both.register(self._fd, 0)
            self._both.register(loop, select.EPOLLIN)

    def wait(self, end: float) -> bool:
        """Waits for a request, until `end` of the monotonic clock at most. Ends sooner where trio
        has something to do. Returns whether a request has come, and trio has nothing to do."""
        if self._both is None:
            return False
        loop = trio.lowlevel.current_statistics()
        left = min(end - time.monotonic(), loop.seconds_to_next_deadline)
        if loop.tasks_runnable or left < SHORTEST:
            return False
        # Once each time: while nobody waits, what comes must not be reported to this epoll as well.
        self._both.modify(self._fd, select.EPOLLIN | select.EPOLLONESHOT)
        return [fd for fd, _ in self._both.poll(left, 2)] == [self._fd]

    def close(self) -> None:
        if self._both is not None:
            self._both.close()
            self._both = None
