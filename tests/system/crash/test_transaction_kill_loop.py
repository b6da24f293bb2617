"""Kill -9 amid transactions, again and again, on one store.

As in test_kill_loop.py, PYRMQ_SEED repeats a run and PYRMQ_CRASH_ROUNDS is kills per variant.
Producers have halves in flight, speak about them, fall silent and answer checks; the verifier
knows what each of them was told. Files are small, so that commits, op records and copies stand in
several files of the log.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from tests.support.client import Client
from tests.support.server import ServerProcess
from tests.support.thorough import seeds, size
from tests.support.waiting import eventually
from tests.system.crash.kill_loop import SMALL_FILES, KillLoop
from tests.system.crash.transaction_load import GROUPS, Producer, TransactionVerifier
from tests.system.crash.transactions import GET_BROKER_RUNTIME_INFO

WINDOWS = (32, 16, 4, 1)
ROUNDS = size("PYRMQ_CRASH_ROUNDS", 2, 300)
CONF = """\
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


def answer_all(server: ServerProcess, number: int, verifier: TransactionVerifier) -> None:
    """Producers of all groups answer until nothing waits."""
    told = frozenset(verifier.told)
    producers = [
        Producer(server.broker, number=i, round_number=number, seed=i, window=0, told=told)
        for i in range(len(GROUPS))
    ]
    for producer in producers:
        producer.start()
    with Client(server.broker) as client:
        eventually(
            lambda: figure(client, "transactionPendingCount"),
            "no half waits",
            60,
            until=lambda waiting: waiting == 0,
        )
    for producer in producers:
        producer.stop.set()
        producer.join(30)
    verifier.note(number, [producer.outcome for producer in producers])


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds("transaction-kill-loop"))
@pytest.mark.parametrize(
    ("flush", "op_size"),
    [
        pytest.param("ASYNC_FLUSH", 4096, id="ASYNC_FLUSH"),
        pytest.param("SYNC_FLUSH", 4096, id="SYNC_FLUSH"),
        pytest.param("ASYNC_FLUSH", 32, id="small-ops"),
    ],
)
def test_every_transaction_comes_to_its_end_once(
    flush: str, op_size: int, seed: int, tmp_path: Path
) -> None:
    verifier = TransactionVerifier()
    conf = SMALL_FILES + CONF.format(op_size=op_size)
    server = ServerProcess(tmp_path / "store", flush=flush, conf=conf)
    loop = KillLoop(server, seed, ROUNDS)

    def load_and_kill(number: int) -> None:
        first_told = threading.Event()
        producers = [
            Producer(
                server.broker,
                number=i,
                round_number=number,
                seed=loop.chance.randrange(1 << 31),
                window=window,
                told=frozenset(verifier.told),
                first_told=first_told,
            )
            for i, window in enumerate(WINDOWS)
        ]
        verifier.note(number, loop.kill_amid(producers, first_told, 0.400))

    def finish() -> None:
        answer_all(server, ROUNDS, verifier)
        with Client(server.broker) as client:
            verifier.verify_all(client)

    def verify_all(client: Client) -> None:
        assert figure(client, "transactionPendingCount") == 0, "all is settled"
        verifier.verify_all(client)

    loop.run(load_and_kill, verifier.verify, verify_all, finish=finish)
    print(f"transactions: {loop.summary()}, {verifier.summary()}")
    assert verifier.told
    assert verifier.checks > 0
