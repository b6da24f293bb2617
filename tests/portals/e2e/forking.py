"""A program that forks while clients are open, for test_fork.py: `forking.py CASE NAMESRV`.

Each case prints what the child saw, then what the parent saw; a child that does nothing is ended by
an alarm.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pyrmq.testing
from pyrmq import ClientError, aio, sync
from pyrmq.sync import Message, Producer

PATIENCE = 30
"""Seconds of a child."""


def say(text: object) -> None:
    print(text, flush=True)


def forked(child: Callable[[], object], end: Callable[[int], Any] = sys.exit) -> int:
    """Runs a function in a child; its exit code, negative for a signal. `sys.exit` goes through all
    that is entered, and atexit."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    signal.alarm(PATIENCE)
    try:
        child()
    except ClientError as e:
        say(f"{type(e).__name__}: {e}")
    return end(0)


def send(namesrv: str, n: int = 0) -> str:
    with Producer("forked", namesrv=namesrv) as producer:
        return producer.send(Message("Forked", b"%d" % n)).status.name


def new(namesrv: str) -> None:
    with Producer("parent", namesrv=namesrv) as producer:
        producer.send(Message("Forked", b"0"))
        say(forked(lambda: say(send(namesrv))))
        say(producer.send(Message("Forked", b"1")).status.name)


def same(namesrv: str) -> None:
    with Producer("parent", namesrv=namesrv) as producer:
        producer.send(Message("Forked", b"0"))
        say(forked(lambda: producer.send(Message("Forked", b"2"))))
        say(producer.send(Message("Forked", b"1")).status.name)


def generator(namesrv: str) -> None:
    """One that was begun before, and is thrown away in the child."""
    with sync.Admin(namesrv) as admin, sync.Producer("parent", namesrv=namesrv) as producer:
        producer.send(Message("Forked", b"0"))
        rows = admin.groups.summaries()
        with suppress(StopIteration):
            next(rows)
        say(forked(lambda: (rows.close(), admin.topics.list())))
        say("Forked" in admin.topics.list())


def made_before(namesrv: str) -> None:
    producer = Producer("parent", namesrv=namesrv)
    say(forked(producer.__enter__))
    with producer:
        say(producer.send(Message("Forked", b"1")).status.name)


async def _aio(namesrv: str) -> str:
    async with aio.Producer("forked", namesrv=namesrv) as producer:
        return (await producer.send(Message("Forked", b"3"))).status.name


def asyncio_in_the_child(namesrv: str) -> None:
    async def main() -> None:
        async with aio.Producer("parent", namesrv=namesrv) as producer:
            await producer.send(Message("Forked", b"0"))
            # Not through the parent's loop, which goes on there.
            say(forked(lambda: say(asyncio.run(_aio(namesrv))), os._exit))
            say((await producer.send(Message("Forked", b"1"))).status.name)

    asyncio.run(main())


def pool(namesrv: str) -> None:
    with Producer("parent", namesrv=namesrv) as producer:
        producer.send(Message("Forked", b"0"))
        with multiprocessing.get_context("fork").Pool(2) as workers:
            got = workers.starmap_async(send, [(namesrv, n) for n in range(4)])
            say(got.get(PATIENCE))
        say(producer.send(Message("Forked", b"1")).status.name)


def broker(namesrv: str) -> None:
    """A broker in this process: the child leaves it alone."""
    with pyrmq.testing.broker() as running:
        send(running.namesrv)
        say(forked(lambda: None))
        say(send(running.namesrv))


CASES: dict[str, Any] = {
    case.__name__: case
    for case in (new, same, generator, made_before, asyncio_in_the_child, pool, broker)
}

if __name__ == "__main__":
    # Python 3.12 says so of every fork while there are threads.
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    CASES[sys.argv[1]](sys.argv[2])
