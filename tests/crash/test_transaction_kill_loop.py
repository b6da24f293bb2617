"""Kill -9 amid transactions, again and again, on one store.

Environment as in test_kill_loop.py: PYRMQ_CRASH_ROUNDS (default 2) kills per variant,
PYRMQ_CRASH_SEED repeats a run. Producers have halves in flight, speak about them, fall silent and
answer checks; the ledger knows what each of them was told. Files are small, so that commits, op
records and copies stand in several files of the log.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from pathlib import Path

import pytest

from tests.crash.test_kill_loop import seed, start_again
from tests.crash.transaction_load import GROUPS, Outcome, Producer, TransactionLedger
from tests.crash.transactions import GET_BROKER_RUNTIME_INFO, PATIENCE
from tests.support.client import Client
from tests.support.server import ServerProcess

WINDOWS = (32, 16, 4, 1)
CONF = """\
mappedFileSizeCommitLog=1048576
mappedFileSizeConsumeQueue=20000
maxHashSlotNum=500
maxIndexNum=1500
transactionTimeOut=100
transactionCheckInterval=50
transactionCheckMax=10000
flushConsumerOffsetInterval=100
transactionOpMsgMaxSize={op_size}
"""


def figure(client: Client, name: str) -> int:
    answer = client.call(GET_BROKER_RUNTIME_INFO)
    assert answer.code == 0, answer.remark
    return int(json.loads(answer.body)["table"][name])


def load_and_kill(
    server: ServerProcess, chance: random.Random, number: int, ledger: TransactionLedger
) -> list[Outcome]:
    """Producers at work, SIGKILL 20 to 400 ms after the first word was answered."""
    first_told = threading.Event()
    producers = [
        Producer(
            server.broker,
            number=i,
            round_number=number,
            seed=chance.randrange(1 << 31),
            window=window,
            told=frozenset(ledger.told),
            first_told=first_told,
        )
        for i, window in enumerate(WINDOWS)
    ]
    for producer in producers:
        producer.start()
    told = first_told.wait(20)
    time.sleep(chance.uniform(0.020, 0.400))
    server.kill()
    for producer in producers:
        producer.join(30)
        assert not producer.is_alive(), f"{producer.name} still runs"
    assert told, f"round {number}: no word was answered in 20 s"
    return [producer.outcome for producer in producers]


def answer_all(server: ServerProcess, number: int, ledger: TransactionLedger) -> None:
    """Producers of all groups answer until nothing waits."""
    told = frozenset(ledger.told)
    producers = [
        Producer(server.broker, number=i, round_number=number, seed=i, window=0, told=told)
        for i in range(len(GROUPS))
    ]
    for producer in producers:
        producer.start()
    deadline = time.monotonic() + 3 * PATIENCE
    with Client(server.broker) as client:
        while waiting := figure(client, "transactionPendingCount"):
            assert time.monotonic() < deadline, f"{waiting} halves still wait"
            time.sleep(0.02)
    for producer in producers:
        producer.stop.set()
        producer.join(30)
    ledger.note(number, [producer.outcome for producer in producers])


@pytest.mark.parametrize(
    ("flush", "op_size"),
    [
        pytest.param("ASYNC_FLUSH", 4096, id="ASYNC_FLUSH"),
        pytest.param("SYNC_FLUSH", 4096, id="SYNC_FLUSH"),
        pytest.param("ASYNC_FLUSH", 32, id="small-ops"),
    ],
)
def test_every_transaction_comes_to_its_end_once(
    flush: str,
    op_size: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    number_of_rounds = int(os.environ.get("PYRMQ_CRASH_ROUNDS", "2"))
    the_seed = seed()
    variant = request.node.callspec.id
    chance = random.Random(the_seed)
    with capsys.disabled():
        print(f"\ntransactions {variant}: PYRMQ_CRASH_SEED={the_seed} rounds={number_of_rounds}")
    ledger = TransactionLedger()
    start_kills = 0
    began = time.monotonic()
    conf = CONF.format(op_size=op_size)
    with ServerProcess(tmp_path / "store", flush=flush, conf=conf) as server:
        for number in range(number_of_rounds):
            ledger.note(number, load_and_kill(server, chance, number, ledger))
            start_kills += start_again(server, chance)
            with Client(server.broker) as client:
                ledger.verify(client, number)
        answer_all(server, number_of_rounds, ledger)
        with Client(server.broker) as client:
            ledger.verify_all(client)
        server.terminate()
        server.restart()
        with Client(server.broker) as client:
            assert figure(client, "transactionPendingCount") == 0, "all is settled"
            ledger.verify_all(client)
    took = time.monotonic() - began
    assert "panicked" not in server.stderr_text(), server.stderr_text()[-4000:]
    with capsys.disabled():
        print(
            f"transactions {variant}: {number_of_rounds} kills, {start_kills} kills during start, "
            f"{ledger.summary()}, {took:.1f} s"
        )
    assert ledger.told
    assert ledger.counts["checks"] > 0
