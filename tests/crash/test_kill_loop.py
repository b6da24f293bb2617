"""Kill -9 in the middle of sending, again and again, on one store.

Environment: PYRMQ_CRASH_ROUNDS (default 5) kills per flush mode; PYRMQ_CRASH_SEED repeats a run
(the load is random in kind, size and moment of the kill; what the scheduler does is not repeated).
Files are small, so that rolling to the next commit-log and ConsumeQueue file is hit all the time.
"""

from __future__ import annotations

import os
import random
import threading
import time
from pathlib import Path

import pytest

from tests.crash.ledger import Ledger
from tests.crash.load import Outcome, Sender
from tests.support.client import Client
from tests.support.server import ServerProcess

TOPIC = "KillLoop"
QUEUES = 4
WINDOWS = (64, 64, 16, 1)

CONF = """\
mappedFileSizeCommitLog=1048576
mappedFileSizeConsumeQueue=20000
"""


def rounds() -> int:
    return int(os.environ.get("PYRMQ_CRASH_ROUNDS", "5"))


def seed() -> int:
    configured = os.environ.get("PYRMQ_CRASH_SEED")
    return int(configured) if configured else random.SystemRandom().randrange(1 << 31)


def load_and_kill(server: ServerProcess, chance: random.Random, number: int) -> list[Outcome]:
    """Senders at work, SIGKILL 20 to 150 ms after the first acknowledgement."""
    first_ack = threading.Event()
    senders = [
        Sender(
            server.broker,
            seed=chance.randrange(1 << 31),
            round_number=number,
            sender=sender,
            topic=TOPIC,
            queues=QUEUES,
            window=window,
            fresh_topic=f"KillFresh-{number}" if sender == 0 else None,
            first_ack=first_ack,
        )
        for sender, window in enumerate(WINDOWS)
    ]
    for sender in senders:
        sender.start()
    acknowledged = first_ack.wait(20)
    time.sleep(chance.uniform(0.020, 0.150))
    server.kill()
    for sender in senders:
        sender.join(30)
        assert not sender.is_alive(), f"{sender.name} still runs"
    assert acknowledged, f"round {number}: no acknowledgement in 20 s"
    return [sender.outcome for sender in senders]


def start_again(server: ServerProcess, chance: random.Random) -> int:
    """Start on the store the kill left; now and then kill the recovery too. Returns those kills."""
    kills = 0
    while chance.random() < 0.25:
        server.spawn()
        time.sleep(chance.uniform(0.0, 0.4))
        server.kill()
        kills += 1
    server.restart(same_ports=chance.random() < 0.5)
    return kills


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_no_acknowledged_message_is_lost(
    flush: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    number_of_rounds, the_seed = rounds(), seed()
    chance = random.Random(the_seed)
    with capsys.disabled():
        print(f"\nkill loop {flush}: PYRMQ_CRASH_SEED={the_seed} rounds={number_of_rounds}")
    ledger = Ledger()
    start_kills = 0
    began = time.monotonic()
    with ServerProcess(tmp_path / "store", flush=flush, conf=CONF) as server:
        for number in range(number_of_rounds):
            outcomes = load_and_kill(server, chance, number)
            start_kills += start_again(server, chance)
            with Client(server.broker) as client:
                ledger.verify_round(client, number, outcomes)
        server.terminate()
        server.restart()
        with Client(server.broker) as client:
            ledger.verify_all(client)
    took = time.monotonic() - began
    assert "panicked" not in server.stderr_text(), server.stderr_text()[-4000:]
    with capsys.disabled():
        print(
            f"kill loop {flush}: {ledger.summary()}, {start_kills} kills during start, {took:.1f} s"
        )
    assert ledger.counts["acknowledged"] > 0
    assert ledger.counts["batches"] > 0
