"""Messages as they are stored: the console unpacks of a body only what it shows."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from pyrmq.admin.api import Admin
from pyrmq.admin.message_ids import check_id
from pyrmq.admin.registered import address_in, broker_at
from pyrmq.errors import ClientError, NotFoundError, ProtocolError, PyrmqError, ResponseError
from pyrmq.model.codes import RequestCode
from pyrmq.model.message import MessageQueue
from pyrmq.model.record import ReceivedMessage, decode_records
from pyrmq.net.address import offset_of_message_id
from pyrmq.net.client.requests import PullStatus, pull_fields, read_pull

PULL_TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class Pulled:
    """The answer to one pull: messages with bodies as stored, and where to go on."""

    messages: list[ReceivedMessage]
    next_offset: int
    end: bool
    """Whether the queue has nothing behind the offset that was asked for."""
    damaged: tuple[str, ...] = ()
    """Why records could not be read; they are left out."""


async def pull(
    admin: Admin, address: str, queue: MessageQueue, offset: int, count: int, expression: str = "*"
) -> Pulled:
    """At most `count` messages of a queue from an offset on. Nothing is committed."""
    link = admin.link
    ext = pull_fields(
        queue.topic, queue.queue_id, offset, count, broker=queue.broker_name, expression=expression
    )
    answer = await link.call(
        address, RequestCode.PULL_MESSAGE, ext, timeout=link.patience(PULL_TIMEOUT)
    )
    pulled = read_pull(answer)
    if pulled.status is PullStatus.FOUND:
        damage: list[ProtocolError] = []
        found = decode_records(
            pulled.body, damage.append, broker_name=queue.broker_name, inflate_body=False
        )
        return Pulled(found, pulled.next_beyond(offset), False, tuple(map(str, damage)))
    if pulled.status is PullStatus.NO_NEW_MESSAGE or pulled.next_offset <= offset:
        return Pulled([], offset, True)
    return Pulled([], pulled.next_offset, False)


async def at(admin: Admin, queue: MessageQueue, offset: int) -> ReceivedMessage:
    """The message at an offset of a queue. Raises NotFoundError if there is none, ClientError if
    the topic is not on that broker."""
    route = await admin.link.route(queue.topic)
    address = route.address_of(queue.broker_name)
    if address is None:
        await admin.link.broker_named(queue.broker_name)  # says so if it is away
        raise ClientError(f"topic {queue.topic} is not on broker {queue.broker_name}")
    found = await pull(admin, address, queue, offset, 1)
    for message in found.messages:
        if message.queue_offset == offset:
            return message
    if found.damaged:
        raise ClientError(f"the record at offset {offset} cannot be read: {found.damaged[0]}")
    raise NotFoundError(
        f"queue {queue.queue_id} of topic {queue.topic} has no message at offset {offset} on "
        f"broker {queue.broker_name}: it was deleted, or is not there yet"
    )


async def by_offset_id(admin: Admin, message_id: str) -> ReceivedMessage | None:
    """The message with an offset id; None if it is no offset id of a broker of this cluster.

    The id names an address. Whoever writes one must not have the console connect anywhere, so only
    brokers that a name server knows are asked.
    """
    offset, asked = offset_of_message_id(message_id), address_in(message_id)
    if offset is None or not asked:
        return None
    name = await broker_at(admin.link, asked)
    if not name:
        return None
    answer = await admin.link.ask(asked, RequestCode.VIEW_MESSAGE_BY_ID, {"offset": offset})
    found = decode_records(answer.body, broker_name=name, inflate_body=False)
    if not found:
        raise ProtocolError(f"{asked} answered without a message")
    return found[0]


async def check_address(admin: Admin, message_id: str) -> None:
    """Raises ClientError if an id names an address that is of no broker of this cluster, and for
    what is no id."""
    check_id(message_id)
    address = address_in(message_id)
    if address and not await broker_at(admin.link, address):
        raise ClientError(
            f"the id names {address}, and no broker of this cluster is there: give the unique id"
        )


async def by_id(admin: Admin, topic: str, message_id: str) -> ReceivedMessage:
    """The newest message with an offset id or a unique id. Raises NotFoundError, and ClientError if
    the text is no id, or if the id is unique and no topic is given."""
    check_id(message_id)
    refused: PyrmqError | None = None
    try:
        found = await by_offset_id(admin, message_id)
    except (ProtocolError, ResponseError) as e:
        found, refused = None, e  # a unique id may look like an offset id
    if found is not None:
        return found
    if not topic:
        if refused is not None:
            raise NotFoundError(f"no message has the offset id {message_id}: {refused}")
        raise ClientError(f"{message_id} is no offset id of this cluster: say its topic as well")
    return (await admin.messages.by_unique_key(topic, message_id))[-1]


def address_of(message: ReceivedMessage) -> str:
    """The query string that leads to a message on the console's pages."""
    if message.broker_name:
        return urlencode(
            {
                "topic": message.topic,
                "broker": message.broker_name,
                "queue": message.queue_id,
                "offset": message.queue_offset,
            }
        )
    return urlencode({"topic": message.topic, "id": message.offset_msg_id})
