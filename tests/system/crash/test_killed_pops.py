"""Kill -9 while a group pops and acknowledges, again and again, on one store.

As in test_kill_loop.py, PYRMQ_SEED repeats a run and PYRMQ_CRASH_ROUNDS is kills per variant.
"""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.support.server import ServerProcess
from tests.support.thorough import seeds, size
from tests.support.waiting import eventually
from tests.system.crash.kill_loop import SMALL_FILES, KillLoop, Worker
from tests.system.crash.pop_load import Member, Outcome, PopVerifier, Sender

ROUNDS = size("PYRMQ_CRASH_ROUNDS", 3, 300)
LONGEST = 2.0
"""Seconds after which a kill comes at the latest."""
PATIENCE = 60.0
MEMBERS = 3


RECLAIM = SMALL_FILES.replace("=1048576", "=65536") + "".join(
    f"{key}={value}\n"
    for key, value in {
        "reclaimAfter": "table",
        "reclaimGroup": "Tables",
        "reclaimTopicsWithoutTable": "*",
        "deleteWhen": ";".join(f"{hour:02d}" for hour in range(24)),
        "cleanResourceInterval": 50,
        "deleteCommitLogFilesInterval": 0,
        "timerFlushIntervalMs": 100,
    }.items()
)
"""Each file of the log goes as soon as nobody needs it."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds("killed-pops"))
@pytest.mark.parametrize(
    ("flush", "conf"),
    [
        pytest.param("ASYNC_FLUSH", SMALL_FILES, id="ASYNC_FLUSH"),
        pytest.param("SYNC_FLUSH", SMALL_FILES, id="SYNC_FLUSH"),
        pytest.param("ASYNC_FLUSH", RECLAIM, id="reclaim"),
    ],
)
def test_each_message_is_acknowledged_or_comes_again(
    flush: str, conf: str, seed: int, tmp_path: Path
) -> None:
    verifier = PopVerifier()
    server = ServerProcess(tmp_path / "store", flush=flush, conf=conf)
    loop = KillLoop(server, seed, ROUNDS)
    chance = loop.chance

    def members(name: str, first_ack: threading.Event, forgets: float) -> list[Member]:
        return [
            Member(
                server.broker, f"{name}-{i}", chance.randrange(1 << 31), first_ack, forgets=forgets
            )
            for i in range(MEMBERS)
        ]

    def load_and_kill(number: int) -> None:
        first_ack = threading.Event()
        senders = [
            Sender(server.broker, f"{number}-{i}", chance.randrange(1 << 31), window)
            for i, window in enumerate((8, 1))
        ]
        workers: list[Worker[Outcome]] = [*senders, *members(str(number), first_ack, 0.15)]
        verifier.note(f"round {number}", loop.kill_amid(workers, first_ack, LONGEST))

    def consume_all(name: str) -> None:
        last = members(name, threading.Event(), 0.0)
        for member in last:
            member.start()

        def left() -> int:
            acked = {key for m in last for key in [*m.outcome.acked, *m.outcome.late]}
            return len(verifier.open() - acked)

        try:
            eventually(left, "all is acknowledged", PATIENCE, until=lambda count: count == 0)
        finally:
            for member in last:
                member.stop.set()
            for member in last:
                member.join(30)
            verifier.note(name, [member.outcome for member in last])

    def finish() -> None:
        consume_all("the end")
        if conf == RECLAIM:
            log = tmp_path / "store" / "commitlog"
            what = "all is settled: the last files stay, and the one that is made ahead"
            eventually(lambda: list(log.iterdir()), what, PATIENCE, until=lambda f: len(f) <= 4)

    loop.run(
        load_and_kill,
        lambda client, number: None,
        lambda client: consume_all("after the last start"),
        finish=finish,
    )
    verifier.check_all()
    print(f"killed pops: {loop.summary()}, {verifier.summary()}")
    assert verifier.acked
    assert verifier.done["batch"] + verifier.done["renew"] > 0
    assert any(popped.times for popped in verifier.popped), "nothing came again"
