"""Kill -9 while timer messages are set, due and recalled all the time, again and again, on one
store.

As in test_kill_loop.py, PYRMQ_SEED repeats a run and PYRMQ_CRASH_ROUNDS is kills per variant.
"""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.support.client import Client
from tests.support.server import ServerProcess
from tests.support.thorough import seeds, size
from tests.support.waiting import eventually
from tests.system.crash.kill_loop import SMALL_FILES, KillLoop
from tests.system.crash.timer_load import CONF, Sender, TimerVerifier

WINDOWS = (16, 4, 1)
ROUNDS = size("PYRMQ_CRASH_ROUNDS", 3, 300)
LONGEST = 2.5
"""Seconds after which a kill comes at the latest: some timers are due by then, others wait."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds("killed-timers"))
@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_each_timer_message_comes_once(flush: str, seed: int, tmp_path: Path) -> None:
    verifier = TimerVerifier()
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
                recalls=0.2 if i == 0 else 0.0,
                first_ack=first_ack,
            )
            for i, window in enumerate(WINDOWS)
        ]
        verifier.note(number, loop.kill_amid(senders, first_ack, LONGEST))

    def finish() -> None:
        with Client(server.broker) as client:

            def left() -> int:
                verifier.verify(client, ROUNDS)
                return verifier.left()

            eventually(left, "all that was acknowledged comes", 60, until=lambda count: count == 0)

    loop.run(load_and_kill, verifier.verify, verifier.verify_all, finish=finish)
    print(f"killed timers: {loop.summary()}, {verifier.summary()}")
    assert verifier.ledger.row().acknowledged
    assert verifier.asked_back
