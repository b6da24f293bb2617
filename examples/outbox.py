"""An order service whose message is sent exactly when its SQL transaction commits.

    python examples/outbox.py
    python examples/outbox.py --database postgresql+psycopg://user@host/name

Four orders, one for each way in which a transaction can end, with an embedded broker and a consumer
that counts messages. A second process of the service places the last two orders and is killed
(SIGKILL) in the middle. The broker then asks the first process, which is in the same group, for
their outcome. It answers from the outbox table, which is written in the orders' transaction.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import trio
from sqlalchemy import Engine, create_engine, select, update
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

import pyrmq.testing
from pyrmq import ConsumeFrom, Message, PushConsumer, TransactionalProducer, TransactionState
from pyrmq.outbox import OUTBOX, Outbox, create_table

GROUP = "order-service"
TOPIC = "Orders"
DEADLINE = 60.0
SCRIPT = str(Path(__file__).resolve())


class Base(DeclarativeBase):
    pass


class Stock(Base):
    __tablename__ = "example_stock"
    item: Mapped[str] = mapped_column(primary_key=True)
    left: Mapped[int]


class Order(Base):
    __tablename__ = "example_orders"
    number: Mapped[str] = mapped_column(primary_key=True)
    item: Mapped[str]
    count: Mapped[int]


class OutOfStock(Exception):
    """Raising it rolls the order back."""


def place_order(number: str, count: int, session: Session) -> None:
    """The local transaction. The outbox begins and commits it."""
    taken = update(Stock).where(Stock.item == "book", Stock.left >= count)
    if session.execute(taken.values(left=Stock.left - count)).rowcount == 0:
        raise OutOfStock(f"{number} wants {count} books")
    session.add(Order(number=number, item="book", count=count))


async def order(outbox: Outbox, producer: TransactionalProducer, number: str, count: int) -> None:
    message = Message(TOPIC, f"{count} books".encode(), keys=number)
    await outbox.send(producer, message, partial(place_order, number, count))


# The process that gets killed.


class KilledAfterCommit(Outbox):
    """Dies after the SQL commit, before the broker gets the outcome."""

    def execute_local_transaction(self, message: Message, arg: object) -> TransactionState:
        super().execute_local_transaction(message, arg)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("killed")


def place_order_and_die(number: str, count: int, session: Session) -> None:
    """Dies after writing everything, before the SQL commit."""
    place_order(number, count, session)
    session.flush()
    os.kill(os.getpid(), signal.SIGKILL)


async def second_process(database: str, namesrv: str, number: str, point: str) -> None:
    kind = KilledAfterCommit if point == "after" else Outbox
    work = place_order if point == "after" else place_order_and_die
    outbox = kind(create_engine(database))
    async with TransactionalProducer(GROUP, outbox, namesrv=namesrv) as producer:
        message = Message(TOPIC, b"1 books", keys=number)
        await outbox.send(producer, message, partial(work, number, 1))


async def killed(database: str, namesrv: str, number: str, point: str) -> None:
    arguments = ["--database", database, "--die", point, namesrv, number]
    command = [sys.executable, SCRIPT, *arguments]
    done = await trio.run_process(command, check=False, capture_stderr=True)
    if done.returncode != -signal.SIGKILL:
        raise SystemExit(f"the second process was not killed:\n{done.stderr.decode()}")


# The contents of the database and the topic.


def prepare(engine: Engine) -> None:
    create_table(engine)
    Base.metadata.drop_all(engine)
    Base.metadata.create_all(engine)
    with Session(engine) as session, session.begin():
        session.add(Stock(item="book", left=10))


def rows(engine: Engine) -> tuple[set[str], dict[str, str], int]:
    """The orders, the outbox's state of each number, and the remaining books."""
    with Session(engine) as session:
        orders = set(session.scalars(select(Order.number)))
        decided = select(OUTBOX.c["keys"], OUTBOX.c.state).order_by(OUTBOX.c.created)
        states = dict(session.execute(decided).all())
        return orders, states, session.scalars(select(Stock.left)).one()


async def consume(namesrv: str, delivered: Counter[str]) -> None:
    async with PushConsumer(
        "shipping", {TOPIC: "*"}, namesrv=namesrv, consume_from=ConsumeFrom.FIRST_OFFSET
    ) as consumer:
        async for message in consumer:
            delivered[message.keys[0]] += 1


async def run(database: str) -> bool:
    engine = create_engine(database)
    await trio.to_thread.run_sync(prepare, engine)
    delivered: Counter[str] = Counter()
    # The broker asks after one second instead of 6, and checks every 0.5 seconds instead of 30.
    settings = {"transaction_time_out": 1000, "transaction_check_interval": 500}
    outbox = Outbox(engine)
    with trio.fail_after(DEADLINE):
        async with (
            pyrmq.testing.broker(**settings) as server,
            TransactionalProducer(GROUP, outbox, namesrv=server.namesrv) as producer,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(consume, server.namesrv, delivered)
            await order(outbox, producer, "order-1", 2)
            print("  order-1: placed")
            try:
                await order(outbox, producer, "order-2", 500)
            except OutOfStock as reason:
                print(f"  order-2: refused, {reason}")
            await killed(database, server.namesrv, "order-3", "after")
            print("  order-3: SQL has committed, then the process was killed")
            await killed(database, server.namesrv, "order-4", "before")
            print("  order-4: the process was killed before SQL committed")
            print("  waiting for the broker to ask what became of the last two ...")
            transactions = server.broker.transactions
            while transactions.stats()["pending"] or len(delivered) < 2:  # noqa: ASYNC110
                await trio.sleep(0.05)
            nursery.cancel_scope.cancel()
    orders, states, left = await trio.to_thread.run_sync(rows, engine)
    engine.dispose()
    return report(orders, states, left, delivered)


def report(orders: set[str], states: dict[str, str], left: int, delivered: Counter[str]) -> bool:
    print(f"\n  {'':10}{'in SQL':10}{'outbox':12}delivered")
    good = left == 7
    for number, wanted in (
        ("order-1", "COMMIT"),
        ("order-2", "ROLLBACK"),
        ("order-3", "COMMIT"),
        ("order-4", "ROLLBACK"),
    ):
        there = number in orders
        state, times = states.get(number, "-"), delivered[number]
        print(f"  {number:10}{'yes' if there else 'no':10}{state:12}{times}")
        good &= state == wanted and there == (state == "COMMIT") == (times == 1)
    print(f"\n  books left: {left} of 10")
    print("\neach order that is in SQL was delivered, no other was" if good else "\nFAILED")
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--database", help="SQLAlchemy URL (default: SQLite in a temporary folder)")
    parser.add_argument("--die", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.die:
        point, namesrv, number = options.die
        trio.run(second_process, options.database, namesrv, number, point)
        return
    print("transactional outbox: four orders, two of them by a process that is killed\n")
    with TemporaryDirectory(prefix="pyrmq-outbox-") as folder:
        database = options.database or f"sqlite:///{Path(folder) / 'shop.db'}"
        sys.exit(0 if trio.run(run, database) else 1)


if __name__ == "__main__":
    main()
