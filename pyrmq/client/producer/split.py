"""Splits messages into batches of a size that a broker accepts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pyrmq.client.producer.refusals import check_kind
from pyrmq.errors import ClientError
from pyrmq.model.message import Message

LIMIT = 4 << 20
_OWN = len("UNIQ_KEY") + 56 + 2
"""Most bytes of the id that a message is sent with."""
_NAMESPACE = len("INSTANCE_ID") + 255 + 2


def batch_size(message: Message) -> int:
    """Most bytes that a message needs in a batch."""
    properties = message.all_properties()
    text = "".join(f"{name}{value}" for name, value in properties.items())
    size = len(text) if text.isascii() else len(text.encode(errors="replace"))
    return 22 + len(message.body) + size + 2 * len(properties) + _OWN + _NAMESPACE


def split_batches(messages: Iterable[Message], limit: int = LIMIT) -> Iterator[list[Message]]:
    """The messages in batches for `Producer.send_batch`, in their order.

    A batch has one topic, one `wait_store_ok`, and at most `limit` bytes; a larger message is a
    batch of its own. The iterable is read as you ask for batches.
    """
    if limit < 1:
        raise ClientError("the limit of a batch must be at least 1 byte")
    batch: list[Message] = []
    size = 0
    for message in messages:
        check_kind("one of the messages", message, (Message,), "a Message")
        own = batch_size(message)
        if batch and (
            size + own > limit
            or message.topic != batch[0].topic
            or message.wait_store_ok != batch[0].wait_store_ok
        ):
            yield batch
            batch, size = [], 0
        batch.append(message)
        size += own
    if batch:
        yield batch
