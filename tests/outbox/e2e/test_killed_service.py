"""kill -9 of a busy service, at no particular place, again and again: in the end the orders in SQL
are those that were delivered."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import trio

import pyrmq.testing
from pyrmq.client import ConsumeFrom, PushConsumer, TransactionalProducer
from pyrmq.server import Running
from tests.outbox.service import GROUP, TOPIC
from tests.outbox.shop import Database
from tests.support.thorough import seeds, size
from tests.support.waiting import eventually_trio

ROOT = Path(__file__).resolve().parents[3]
ROUNDS = size("PYRMQ_OUTBOX_ROUNDS", 3, 30)
SECONDS = 120.0 + 10 * ROUNDS


def run_and_kill(database: Database, namesrv: str, prefix: str, orders: int) -> list[str]:
    """Lets a service place so many orders, kills it, and says which it had reported."""
    command = [sys.executable, "-m", "tests.outbox.service", database.url, namesrv, prefix]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = [process.stdout.readline().strip() for _ in range(orders)]
        process.kill()
        # A line that the kill has cut reports nothing.
        told += [line.strip() for line in process.stdout if line.endswith("\n")]
    assert all(told), "the service ended by itself"
    return told


async def consume(server: Running, delivered: Counter[str]) -> None:
    async with PushConsumer(
        "reader", {TOPIC: "*"}, namesrv=server.namesrv, consume_from=ConsumeFrom.FIRST_OFFSET
    ) as consumer:
        async for message in consumer:
            delivered[message.keys[0]] += 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds("outbox-kill"))
async def test_orders_and_messages_agree(database: Database, seed: int) -> None:
    dice = random.Random(seed)
    delivered: Counter[str] = Counter()
    told: list[str] = []
    settings = {"transaction_time_out": 1000, "transaction_check_interval": 300}
    with trio.fail_after(SECONDS):
        async with (
            pyrmq.testing.broker(**settings) as server,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(consume, server, delivered)
            for turn in range(ROUNDS):
                orders = dice.randrange(1, 60)
                told += await trio.to_thread.run_sync(
                    run_and_kill, database, server.namesrv, f"r{turn}", orders
                )
            outbox = database.outbox(lock_timeout=0.5)
            async with TransactionalProducer(GROUP, outbox, namesrv=server.namesrv):
                transactions = server.broker.transactions
                what = "no transaction waits"
                await eventually_trio(
                    lambda: transactions.stats()["pending"], what, until=lambda n: not n
                )
            placed = await trio.to_thread.run_sync(database.orders)
            await eventually_trio(lambda: placed <= set(delivered), "all orders are delivered")
            nursery.cancel_scope.cancel()
    assert set(delivered) == placed
    assert set(told) <= placed
    assert len(placed) >= ROUNDS
