"""A broker whose disk hangs: a process with the failing calls preloaded.

Arguments: a case's name, and a folder to work in. The clients are in threads of this process. A
disk that hangs answers nothing until the case says so, so whoever waits for it on the event loop
makes the case hang. Exit code 77: this file system keeps all of its files in memory.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, ExitStack
from functools import partial
from pathlib import Path
from threading import Timer
from typing import Any

import trio

import pyrmq.testing
from pyrmq.engine import BUSY, SLOW, Store
from pyrmq.model.codes import RequestCode
from pyrmq.server import Running
from tests.support.client import Client, Pulled
from tests.support.delays import runtime_info
from tests.support.waiting import eventually_trio
from tests.support.wire import Command
from tests.system.faults.inject.calls import HELD, FailingCalls, Fault

SECONDS = 30.0
WARM = 77
SYSTEM_BUSY = 2
FILE = 1 << 20
MESSAGES = 300
BODY = 10_000
TOPIC = "T"

thread = trio.to_thread.run_sync


def fill(root: Path) -> None:
    """A store of three log files whose last one alone is in memory."""
    store = Store(root, commit_log_file_size=FILE)
    store.set_topic(TOPIC, read_queues=1, write_queues=1)
    for n in range(MESSAGES):
        store.put(TOPIC, 0, b"%05d" % n * (BODY // 5))
    store.close()


def forget(root: Path) -> None:
    """Has the kernel give up what it keeps of a store's files."""
    for path in [p for p in root.rglob("*") if p.is_file()]:
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def broker(root: Path, **settings: Any) -> AbstractAsyncContextManager[Running]:
    # Without an index: the thread that makes it reads the whole log.
    return pyrmq.testing.broker(
        root, mapped_file_size_commit_log=FILE, message_index_enable=False, **settings
    )


def pull(client: Client, offset: int) -> Pulled:
    return client.pull(TOPIC, 0, offset)


async def cold_pull(root: Path, calls: FailingCalls) -> None:
    """Who reads what is on disk only waits for it alone: others send, and read what is new."""
    fill(root)
    forget(root)
    calls.arm(root, Fault())  # mappings that are made from here on are known
    async with broker(root) as running:
        store = running.broker.store
        if store.get(TOPIC, 0, 0, wait=False) is not None:
            sys.exit(WARM)
        calls.arm(root, Fault("madvise", "commitlog/*", 1, 0, HELD))
        found: list[Pulled] = []
        with (
            Client(running.broker_address) as late,
            Client(running.broker_address) as sender,
        ):
            async with trio.open_nursery() as nursery:

                async def cold() -> None:
                    found.append(await thread(pull, late, 0))

                nursery.start_soon(cold)
                await eventually_trio(lambda: calls.fired, "a read waits for the disk")
                for n in range(50):
                    answer = await thread(partial(sender.send, TOPIC, b"new%d" % n))
                    assert answer.code == 0, answer.remark
                    new = await thread(pull, sender, MESSAGES + n)
                    assert [r.body for r in new.records] == [b"new%d" % n]
                assert not found
                calls.disarm()
            assert [r.body[:5] for r in found[0].records][:2] == [b"00000", b"00001"]
            # All of it, from the disk and from memory.
            bodies = [r.body for r in await thread(late.pull_all, TOPIC, 0, 0, MESSAGES + 50)]
    assert [b[:5] for b in bodies[:MESSAGES]] == [b"%05d" % n for n in range(MESSAGES)]
    assert bodies[MESSAGES:] == [b"new%d" % n for n in range(50)]


async def hung_write(root: Path, calls: FailingCalls) -> None:
    """While a write of the log hangs, new messages are refused with SYSTEM_BUSY and all else is
    answered; what was to be written is acknowledged when it is."""
    calls.arm(root, Fault())
    async with broker(root, os_page_cache_busy_time_out_mills=300) as running:
        store = running.broker.store
        with ExitStack() as stack:
            clients = [stack.enter_context(Client(running.broker_address)) for _ in range(3)]
            first, second, reader = clients
            assert (await thread(partial(first.send, TOPIC, b"0", queues=1))).code == 0
            # The first one holds up everybody: nothing told that the disk would hang.
            calls.arm(root, Fault("write", "commitlog/*", 1, 0, HELD))
            timer = Timer(0.3, calls.disarm)
            timer.start()
            assert (await thread(partial(first.send, TOPIC, b"1"))).code == 0
            timer.join()
            assert store.stall() == SLOW
            for number in (b"2", b"3"):  # slow, but it works
                assert (await thread(partial(first.send, TOPIC, number))).code == 0
            assert (await thread(partial(second.send, "Topic2", b"new"))).code == 0

            calls.arm(root, Fault("write", "commitlog/*", 1, 0, HELD))
            answers: list[Command] = []
            async with trio.open_nursery() as nursery:

                async def waits() -> None:
                    answers.append(await thread(partial(first.send, TOPIC, b"4")))

                nursery.start_soon(waits)
                await eventually_trio(lambda: store.stall() == BUSY, "a write hangs")
                for _ in range(3):
                    refused = await thread(partial(second.send, TOPIC, b"refused"))
                    assert refused.code == SYSTEM_BUSY, refused
                    assert "[PC_SYNCHRONIZED]" in str(refused.remark)
                    beat = await thread(second.heartbeat, "c", "g", TOPIC)
                    assert beat.code == 0
                    found = await thread(pull, reader, 0)
                    assert [r.body for r in found.records] == [b"0", b"1", b"2", b"3"]
                info = await thread(runtime_info, second)
                assert int(info["pageCacheLockTimeMills"]) >= 300
                # Longer than whatever the broker does once a second.
                end = trio.current_time() + 2.5
                while trio.current_time() < end:
                    assert (await thread(second.heartbeat, "c", "g", TOPIC)).code == 0
                new = await thread(partial(second.send, "NewTopic", b"refused"))
                assert new.code == SYSTEM_BUSY, new
                assert not answers
                calls.disarm()
            assert answers[0].code == 0, answers[0].remark
            assert (await thread(partial(second.send, TOPIC, b"5"))).code == 0
            # The thread of the engine may still be at the end of the last write.
            with trio.fail_after(SECONDS / 3):
                while (await thread(runtime_info, second))["pageCacheLockTimeMills"] != "0":
                    pass
            bodies = [r.body for r in await thread(reader.pull_all, TOPIC, 0, 0, 6)]
    assert bodies == [b"%d" % n for n in range(6)]


def sql_heartbeat(client: Client, expression: str, version: int) -> float:
    """A consumer of the topic; returns how long the answer took, seconds."""
    began = time.monotonic()
    subscription = {
        "topic": TOPIC, "subString": expression, "expressionType": "SQL92", "subVersion": version,
    }  # fmt: skip
    consumer = {"groupName": "g", "subscriptionDataSet": [subscription]}
    body = {"clientID": "c", "consumerDataSet": [consumer], "producerDataSet": []}
    assert client.call(RequestCode.HEART_BEAT, json.dumps(body).encode()).code == 0
    return time.monotonic() - began


async def hung_write_and_sql(root: Path, calls: FailingCalls) -> None:
    """While a write of the log hangs, an expression that is to be evaluated as messages are stored
    holds up nobody; it is evaluated later."""
    calls.arm(root, Fault())
    settings = {"enable_consume_queue_ext": True, "enable_calc_filter_bit_map": True}
    async with broker(root, os_page_cache_busy_time_out_mills=300, **settings) as running:
        store, filters = running.broker.store, running.broker.parts.tables.filters
        with ExitStack() as stack:
            clients = [stack.enter_context(Client(running.broker_address)) for _ in range(2)]
            first, second = clients
            assert (await thread(partial(first.send, TOPIC, b"0", queues=1))).code == 0
            await thread(sql_heartbeat, second, "n > 0", 1)
            calls.arm(root, Fault("write", "commitlog/*", 1, 0, HELD))
            timer = Timer(0.3, calls.disarm)
            timer.start()
            assert (await thread(partial(first.send, TOPIC, b"1"))).code == 0
            timer.join()
            calls.arm(root, Fault("write", "commitlog/*", 1, 0, HELD))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(thread, partial(first.send, TOPIC, b"2"))
                await eventually_trio(lambda: store.stall() == BUSY, "a write hangs")
                timer = Timer(3, calls.disarm)
                timer.start()
                assert await thread(sql_heartbeat, second, "n > 1", 2) < 2
                timer.cancel()
                calls.disarm()
            assert filters._topics[TOPIC]["g"].born_offset == -1
            assert filters._waiting == {TOPIC}


CASES: dict[str, Callable[[Path, FailingCalls], Awaitable[None]]] = {
    "cold-pull": cold_pull,
    "hung-write": hung_write,
    "hung-write-and-sql": hung_write_and_sql,
}


async def main(case: str, root: Path) -> None:
    calls = FailingCalls()
    with trio.fail_after(SECONDS):
        await CASES[case](root, calls)


if __name__ == "__main__":
    trio.run(main, sys.argv[1], Path(sys.argv[2]))
