"""What mypy --strict has to find: in each line that ends with a code, and in no other."""

from __future__ import annotations

import pyrmq
from pyrmq import aio, sync
from pyrmq.aio import Prodcuer  # attr-defined
from pyrmq.oms import aio as oms_aio
from pyrmq.oms import sync as oms_sync
from pyrmq.sync import Consumer  # attr-defined


def text(message: sync.ReceivedMessage) -> str:
    return "consumed"


def other(message: int) -> None: ...


def plain(message: sync.ReceivedMessage) -> None: ...


async def in_loop(message: sync.ReceivedMessage) -> None: ...


print(Prodcuer, Consumer)
sync.Producer("g", namesrv=["a:1"])  # arg-type
sync.Producer("g", send_timeout="3s")  # arg-type
sync.Producer("g", send_timeuot=3)  # call-arg
sync.Producer()  # call-arg
aio.Producer("g", auto_batch="yes")  # arg-type
aio.PushConsumer("g", "T")  # arg-type
aio.PushConsumer("g", {"T": "*"}, listener=plain)  # arg-type
aio.PushConsumer("g", {"T": "*"}, batch_size="4")  # arg-type
sync.PushConsumer("g", {"T": "*"}, listener=in_loop)  # arg-type
sync.PushConsumer("g", {"T": "*"}, listener=text)  # arg-type
sync.PushConsumer("g", {"T": "*"}, listener=other)  # arg-type
sync.PushConsumer("g", {"T": "*"}, consume_from="FIRST")  # arg-type
sync.LitePullConsumer("g", auto_commit=None)  # arg-type
sync.TransactionalProducer("g", object())  # arg-type
sync.TransactionalProducer("g")  # call-arg
pyrmq.Producer("g", send_timeout="3s")  # arg-type
pyrmq.PushConsumer("g", {"T": "*"}, listener=other)  # arg-type
pyrmq.TransactionalProducer("g", retry_times="2")  # arg-type


def calls(producer: sync.Producer, other: aio.Producer) -> None:
    producer.sned(sync.Message("T", b""))  # attr-defined
    producer.send("T")  # arg-type
    print(producer.send(sync.Message("T", b"")).staus)  # attr-defined
    print(other.send(aio.Message("T", b"")).status)  # attr-defined


async def open_messaging(consumer: oms_sync.PushConsumer, other: oms_aio.PullConsumer) -> None:
    consumer.suspend(1)  # call-arg
    consumer.suspnd()  # attr-defined
    await consumer.resume()  # misc
    await other.ack(5)  # arg-type
    print(await other.receive(timeout="1"))  # arg-type
