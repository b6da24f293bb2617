"""A service that places orders in many tasks at once until it is killed.

    python -m tests.outbox.service URL NAMESRV PREFIX

It prints the name of each order that the broker was told about. Every fifth is rolled back.
"""

from __future__ import annotations

import itertools
import sys
from functools import partial

import trio
from sqlalchemy import create_engine, insert
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from pyrmq.client import TransactionalProducer
from pyrmq.errors import PyrmqError
from pyrmq.model.message import Message
from pyrmq.outbox import Outbox

from .shop import ORDERS

GROUP = "service"
TOPIC = "Placed"
TASKS = 8


class Refused(Exception):
    """What a rolled back order raises."""


def place(name: str, number: int, session: Session) -> None:
    session.execute(insert(ORDERS).values(id=name, amount=number))
    if number % 5 == 0:
        raise Refused(name)


async def main(url: str, namesrv: str, prefix: str) -> None:
    outbox = Outbox(create_engine(url, pool_size=TASKS + 4))
    numbers = itertools.count()

    async def work(producer: TransactionalProducer) -> None:
        for number in numbers:
            name = f"{prefix}-{number}"
            try:
                await outbox.send(
                    producer, Message(TOPIC, b"order", keys=name), partial(place, name, number)
                )
            except (Refused, PyrmqError, SQLAlchemyError):
                continue  # such as a lock that was not had in time on a busy machine
            print(name, flush=True)

    async with (
        TransactionalProducer(GROUP, outbox, namesrv=namesrv) as producer,
        trio.open_nursery() as nursery,
    ):
        for _ in range(TASKS):
            nursery.start_soon(work, producer)


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])
