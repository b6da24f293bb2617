"""Dead letters of a group on a real broker, pyrmq's or Apache RocketMQ's."""

from __future__ import annotations

from typing import TypeVar

from pyrmq.admin import Admin
from pyrmq.client import Producer, PushConsumer
from pyrmq.model.codes import RequestCode
from pyrmq.model.message import Message, SendResult
from tests.support.waiting import until

T = TypeVar("T")


async def make_group(admin: Admin, namesrv: str, group: str, broker: str) -> None:
    """The group, on one broker (`host:port`), with the retry topic that a member makes."""
    (await admin.groups.change(group, {}, broker=broker)).check_all()
    await send_all(namesrv, Message("Elsewhere", b"makes the topic"))

    async def routed() -> bool:
        return f"%RETRY%{group}" in await admin.link.topics()

    async with PushConsumer(group, {"Elsewhere": "*"}, namesrv=namesrv):
        await until(routed, "the name server knows the retry topic")


async def die(admin: Admin, group: str, broker: str, *sent: SendResult) -> None:
    """Sends messages back as a member that refuses them, so that they become dead letters at once;
    returns when the name server knows their topic."""
    for result in sent:
        ext: dict[str, str | int | bool] = {
            "offset": int(result.offset_msg_id[-16:], 16), "group": group, "delayLevel": -1,
            "originMsgId": result.msg_id, "originTopic": result.queue.topic, "unitMode": False,
            "maxReconsumeTimes": 16,
        }  # fmt: skip
        await admin.link.ask(broker, RequestCode.CONSUMER_SEND_MSG_BACK, ext)

    async def routed() -> bool:
        return f"%DLQ%{group}" in await admin.link.topics()

    await until(routed, "the name server knows the dead letters")


async def send_all(namesrv: str, *messages: Message) -> list[SendResult]:
    async with Producer("PG", namesrv=namesrv) as producer:
        return [await producer.send(message) for message in messages]
