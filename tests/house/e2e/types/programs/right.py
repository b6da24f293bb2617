"""What programs may write: mypy --strict finds nothing."""

from __future__ import annotations

import pyrmq
from pyrmq import aio, sync
from pyrmq.aio import ConsumeResult, ReceivedMessage
from pyrmq.oms import aio as oms_aio
from pyrmq.oms import sync as oms_sync
from pyrmq.sync import ConsumeFrom, Message, MessageModel, Producer, SendResult, SendStatus


class Orders:
    def execute_local_transaction(self, message: Message, arg: int) -> sync.TransactionState:
        return sync.TransactionState.COMMIT

    def check_local_transaction(self, message: ReceivedMessage) -> sync.TransactionState:
        return sync.TransactionState.UNKNOWN


def plain(message: ReceivedMessage) -> None:
    print(message.body)


def many(messages: list[ReceivedMessage]) -> int:
    return len(messages)


async def in_loop(message: ReceivedMessage) -> ConsumeResult:
    return ConsumeResult.SUCCESS


def in_plain_code() -> bool:
    with Producer("g", namesrv="a:1", send_timeout=3, auto_batch=True) as producer:
        result: SendResult = producer.send(Message("T", b"x"), timeout=2.0)
        pending = producer.send_soon(Message("T", b"x"))
        again: SendResult = pending.result()
    consumer = sync.PushConsumer(
        "g",
        {"T": "*"},
        listener=plain,
        consume_from=ConsumeFrom.FIRST_OFFSET,
        message_model=MessageModel.BROADCASTING,
    ).start()
    consumer.close()
    sync.PushConsumer("g", {"T": "*"}, listener=many, batch_size=32)
    with sync.TransactionalProducer("g", Orders(), topics=["T"], retry_times=1) as transactional:
        sent: sync.TransactionSendResult = transactional.send_in_transaction(Message("T", b""), 1)
    with sync.Admin("a:1") as admin:
        names: list[str] = [str(topic) for topic in admin.topics.list()]
    return result.status is SendStatus.SEND_OK and bool(names) and sent is again


async def in_asyncio() -> None:
    producer = await aio.Producer("g", namesrv="a:1").start()
    result: aio.SendResult = await producer.send(aio.Message("T", b"x"))
    await producer.close()
    async with aio.PushConsumer("g", {"T": "*"}, listener=in_loop):
        print(result.queue.queue_id)
    async with aio.LitePullConsumer("g", auto_commit=False) as consumer:
        async for message in consumer:
            print(message.msg_id)


async def on_trio() -> None:
    async with pyrmq.PushConsumer("g", {"T": "*"}, listener=in_loop):
        pass
    async with pyrmq.PushConsumer("g", {"T": "*"}, listener=plain):
        pass
    async with pyrmq.TransactionalProducer("g", Orders(), namesrv="a:1", send_timeout=1.0):
        pass


def with_an_outbox(outbox: sync.Outbox, producer: sync.TransactionalProducer) -> None:
    print(outbox.send(producer, Message("T", b"x"), timeout=3.0).msg_id)


async def with_an_outbox_in_asyncio(
    outbox: aio.Outbox, producer: aio.TransactionalProducer
) -> None:
    print((await outbox.send(producer, Message("T", b"x"))).local_state)


def with_open_messaging() -> bool:
    point = oms_sync.MessagingAccessPoint("oms:rocketmq://127.0.0.1:9876/default")
    with point.create_push_consumer({"CONSUMER_ID": "g"}) as consumer:
        consumer.suspend()
        suspended: bool = consumer.is_suspended()
    with point.create_pull_consumer({"CONSUMER_ID": "g"}) as pulling:
        message = pulling.receive(timeout=1.0)
        if message is not None:
            pulling.ack(message)
    return suspended


async def with_open_messaging_in_asyncio() -> bool:
    point = oms_aio.MessagingAccessPoint("oms:rocketmq://127.0.0.1:9876/default")
    async with point.create_push_consumer({"CONSUMER_ID": "g"}) as consumer:
        await consumer.suspend()
        suspended: bool = await consumer.is_suspended()
    return suspended
