"""Kill -9 in the middle of sending, again and again, on one store.

The load is random in kind, size and moment of the kill: PYRMQ_SEED repeats it. PYRMQ_CRASH_ROUNDS:
kills per variant. One variant spreads the log over two folders and keeps extension files beside the
queues.
"""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.support.client import Client
from tests.support.server import ServerProcess
from tests.support.thorough import seeds, size
from tests.system.crash.kill_loop import SMALL_FILES, KillLoop
from tests.system.crash.load import Outcome, Sender
from tests.system.crash.verifier import Verifier

TOPIC = "KillLoop"
QUEUES = 4
WINDOWS = (64, 64, 16, 1)
ROUNDS = size("PYRMQ_CRASH_ROUNDS", 3, 300)

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


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds("kill-loop"))
@pytest.mark.parametrize(("flush", "more"), VARIANTS)
def test_no_acknowledged_message_is_lost(flush: str, more: str, seed: int, tmp_path: Path) -> None:
    store, verifier = tmp_path / "store", Verifier()
    server = ServerProcess(store, flush=flush, conf=SMALL_FILES + more.format(store=store))
    loop = KillLoop(server, seed, ROUNDS)
    chance = loop.chance
    outcomes: list[Outcome] = []

    def load_and_kill(number: int) -> None:
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
        outcomes[:] = loop.kill_amid(senders, first_ack, 0.150)

    def verify_round(client: Client, number: int) -> None:
        verifier.verify_round(client, number, outcomes)
        verifier.verify_index(client, chance)

    def verify_all(client: Client) -> None:
        verifier.verify_all(client)
        verifier.verify_index(client, chance, count=200)

    loop.run(load_and_kill, verify_round, verify_all)
    print(f"kill loop: {loop.summary()}, {verifier.summary()}")
    assert verifier.acked
    assert verifier.counts["batches"] > 0
    assert len(list((store / "index").iterdir())) > 1
    for folder in ("second", "consumequeue_ext") if more else ():
        assert any((store / folder).iterdir()), folder
