"""Kill -9 in the middle of sending, again and again, on one store.

Environment: PYRMQ_CRASH_ROUNDS (default 4) kills per variant; PYRMQ_CRASH_SEED repeats a run
(the load is random in kind, size and moment of the kill; what the scheduler does is not repeated).
Files are small, so that rolling to the next commit-log, ConsumeQueue and index file is hit all the
time. One variant spreads the log over two folders and keeps extension files beside the queues.
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
maxHashSlotNum=500
maxIndexNum=1500
"""
WIDE = """\
storePathCommitLog={store}/commitlog,{store}/second
enableConsumeQueueExt=true
mappedFileSizeConsumeQueueExt=20000
"""

VARIANTS = [
    pytest.param("ASYNC_FLUSH", "", id="ASYNC_FLUSH"),
    pytest.param("SYNC_FLUSH", "", id="SYNC_FLUSH"),
    pytest.param("ASYNC_FLUSH", WIDE, id="folders-and-ext"),
]


def rounds() -> int:
    return int(os.environ.get("PYRMQ_CRASH_ROUNDS", "4"))


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


@pytest.mark.parametrize(("flush", "more"), VARIANTS)
def test_no_acknowledged_message_is_lost(
    flush: str,
    more: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    number_of_rounds, the_seed = rounds(), seed()
    variant = request.node.callspec.id
    chance = random.Random(the_seed)
    with capsys.disabled():
        print(f"\nkill loop {variant}: PYRMQ_CRASH_SEED={the_seed} rounds={number_of_rounds}")
    ledger = Ledger()
    start_kills = 0
    began = time.monotonic()
    store = tmp_path / "store"
    conf = CONF + more.format(store=store)
    with ServerProcess(store, flush=flush, conf=conf) as server:
        for number in range(number_of_rounds):
            outcomes = load_and_kill(server, chance, number)
            start_kills += start_again(server, chance)
            with Client(server.broker) as client:
                ledger.verify_round(client, number, outcomes)
                ledger.verify_index(client, chance)
        server.terminate()
        server.restart()
        with Client(server.broker) as client:
            ledger.verify_all(client)
            ledger.verify_index(client, chance, count=200)
    took = time.monotonic() - began
    assert "panicked" not in server.stderr_text(), server.stderr_text()[-4000:]
    with capsys.disabled():
        print(
            f"kill loop {variant}: {ledger.summary()}, {start_kills} kills during start, "
            f"{took:.1f} s"
        )
    assert ledger.counts["acknowledged"] > 0
    assert ledger.counts["batches"] > 0
    assert len(list((store / "index").iterdir())) > 1
    for folder in ("second", "consumequeue_ext") if more else ():
        assert any((store / folder).iterdir()), folder
