"""Kill -9 while delayed messages are due all the time, again and again, on one store.

As in test_kill_loop.py, PYRMQ_SEED repeats a run and PYRMQ_CRASH_ROUNDS is kills per variant. Files
are small, so that what waits and what was delivered stand in several files of the log.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from pyrmq.broker.delay import RETRY
from tests.support.client import Client
from tests.support.delays import await_records, levels
from tests.support.server import ServerProcess
from tests.support.thorough import seeds, size
from tests.support.waiting import POLL, eventually
from tests.system.crash.delay_load import CONF, TOPIC, DelayVerifier, Sender
from tests.system.crash.kill_loop import SMALL_FILES, KillLoop

WINDOWS = (16, 4, 1)
"""Unanswered sends of each sender; one more of each kind sends back."""
ROUNDS = size("PYRMQ_CRASH_ROUNDS", 3, 300)
LONGEST = 2.0
"""Seconds after which a kill comes at the latest: twice the shortest delay."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds("killed-deliveries"))
@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_each_delayed_message_is_delivered_once(flush: str, seed: int, tmp_path: Path) -> None:
    verifier = DelayVerifier()
    server = ServerProcess(tmp_path / "store", flush=flush, conf=SMALL_FILES + CONF)
    loop = KillLoop(server, seed, ROUNDS)

    def load_and_kill(number: int) -> None:
        first_ack = threading.Event()
        senders = [
            Sender(
                server.broker,
                name=f"{number}-{i}",
                seed=loop.chance.randrange(1 << 31),
                window=window,
                back=back,
                first_ack=first_ack,
            )
            for i, (window, back) in enumerate([*((w, False) for w in WINDOWS), (4, True)])
        ]
        verifier.note(number, loop.kill_amid(senders, first_ack, LONGEST))

    def finish() -> None:
        with Client(server.broker) as client:
            eventually(
                lambda: levels(client),
                "nothing waits",
                60,
                until=lambda found: all(given == end for given, end in found),
            )
            verifier.verify_all(client)

    loop.run(load_and_kill, verifier.verify, verifier.verify_all, finish=finish)
    print(f"killed deliveries: {loop.summary()}, {verifier.summary()}")
    assert verifier.ledger.row().acknowledged
    assert {r.topic for r in verifier.delivered} > {TOPIC}, "some were sent back"


@pytest.mark.parametrize(
    ("flush", "file"),
    [
        pytest.param("ASYNC_FLUSH", None, id="new"),
        pytest.param("SYNC_FLUSH", '{"offsetTable":{1:0,2:0,3:0}}', id="RocketMQ's"),
    ],
)
def test_killed_before_progress_was_ever_kept(flush: str, file: str | None, tmp_path: Path) -> None:
    """The first deliveries of a store, or the first after RocketMQ had it: nothing but the log
    tells of them."""
    path = tmp_path / "store" / "config" / "delayOffset.json"
    if file:
        path.parent.mkdir(parents=True)
        path.write_text(file)
    expected = [b"%03d" % n for n in range(100)]
    with ServerProcess(tmp_path / "store", flush=flush, conf=CONF) as server:
        with Client(server.broker) as client:
            for body in expected:
                client.send(TOPIC, body, properties={"DELAY": "1"})
            await_records(client, TOPIC, 100)
        server.kill()
        server.start()
        with Client(server.broker) as client:
            client.send(TOPIC, b"last", properties={"DELAY": "1"})
            await_delivered(client, 101)
            records = await_records(client, TOPIC, 101)
            assert [r.body for r in records] == [*expected, b"last"]


def test_killed_while_progress_could_not_be_written(tmp_path: Path) -> None:
    """A folder stands in the place of the new file. What is delivered all the same must not be
    delivered again."""
    in_the_way = tmp_path / "store" / "config" / "delayOffset.json.tmp"
    in_the_way.mkdir(parents=True)
    with ServerProcess(tmp_path / "store", conf=CONF) as server:
        with Client(server.broker) as client:
            client.send(TOPIC, b"first", properties={"DELAY": "1"})
            said = "delayed messages are not delivered, next try follows"
            eventually(lambda: said in server.stderr_text(), "the broker has tried")
            tries_end = time.monotonic() + 2 * RETRY
            while levels(client)[0] == (0, 1) and time.monotonic() < tries_end:
                time.sleep(POLL)
        server.kill()
        in_the_way.rmdir()
        server.start()
        with Client(server.broker) as client:
            await_delivered(client, 1)
            assert [r.body for r in await_records(client, TOPIC, 1)] == [b"first"]


def await_delivered(client: Client, count: int) -> None:
    """So many of the first level are behind it."""
    what = f"{count} are delivered"
    eventually(lambda: levels(client)[0], what, until=lambda found: found == (count, count))
