"""Messages as requests: checked, with their ids, compressed, in batches that a broker takes.
[DefaultMQProducerImpl.sendKernelImpl, MessageClientIDSetter]"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import trio

from pyrmq.client.checks import check_kind, check_topic, encode_properties
from pyrmq.engine import MessageText, unique_key
from pyrmq.errors import ClientError, UnsendableMessageError
from pyrmq.model.codes import RequestCode
from pyrmq.model.compression import CompressionType, compress
from pyrmq.model.message import Message
from pyrmq.model.names import RETRY_PREFIX, with_namespace
from pyrmq.model.properties import (
    DELAY,
    INSTANCE_ID,
    MESSAGE_TYPE,
    PRIORITY,
    REPLY,
    TIMER_PROPERTIES,
    UNIQ_KEY,
)
from pyrmq.model.record import encode_entry
from pyrmq.model.transaction import PRODUCER_GROUP, TRAN_MSG
from pyrmq.net.address import own_ip
from pyrmq.net.client.requests import SendHeader, send_code

COMPRESS_HERE = 16 << 10
"""Bodies up to so many bytes are compressed on the event loop, which takes less time than a
thread."""
LEVELS = {CompressionType.ZLIB: (0, 9), CompressionType.LZ4: (0, 9), CompressionType.ZSTD: (1, 22)}
BATCH_LIMIT = 4 << 20
PRIORITY_CHOOSES = "give no queue, select or sharding_key: the priority chooses the queue"
_LEVEL = re.compile(r"-?[0-9]{1,9}")
"""A delay level as text. Apache's brokers answer any other text with an error of another kind."""
_OWN = len("UNIQ_KEY") + 56 + 2
"""Most bytes of the id that a message is sent with."""
_NAMESPACE = len("INSTANCE_ID") + 255 + 2


def key_address() -> str:
    """The address at the beginning of this machine's keys."""
    return own_ip().partition("%")[0]


def key_maker() -> Callable[[], str]:
    """Makes keys of 32 hex digits, of 56 with an IPv6 address: IP, low half of the process id, a
    random constant of the process, ms since the month began (local time), a counter."""
    return partial(unique_key, key_address())


@dataclass(slots=True)
class Outgoing:
    """A send request without its queue. `key` has the UNIQ_KEYs of its messages, joined by commas;
    `topic` its namespace."""

    code: int
    topic: str
    key: str
    header: SendHeader
    body: bytes
    sys_flag: int = 0
    message: Message | None = None
    """The message of the request; None for a batch."""

    @property
    def is_timer(self) -> bool:
        """Whether it is a timer message."""
        return self.message is not None and self.message.is_timer


@dataclass(frozen=True, slots=True)
class Packing:
    """How messages become requests; `group` has the broker's name."""

    group: str
    namespace: str
    max_message_size: int
    compress_over: int
    compress_type: CompressionType
    compress_level: int


class Packer:
    """Turns messages into requests. It changes no message."""

    def __init__(self, packing: Packing) -> None:
        check_kind(
            "compress_type", packing.compress_type, (CompressionType,), "a pyrmq.CompressionType"
        )
        low, high = LEVELS[packing.compress_type]
        if not isinstance(packing.compress_level, int) or not low <= packing.compress_level <= high:
            raise ClientError(
                f"compress_level {packing.compress_level!r}: a level of {packing.compress_type} is "
                f"{low} to {high}"
            )
        self._how = packing
        self._address = key_address()
        self._usual = MessageText(
            Message, self._address, packing.namespace, packing.max_message_size
        )
        self.entry_of_usual = self._usual.entry
        """As `usual_entry`, for a topic whose name was checked."""
        self._threads = trio.CapacityLimiter(os.cpu_count() or 1)

    def check(self, message: Message) -> None:
        """Raises NotSentError if it cannot be sent, and ClientError if it is not a message."""
        if not isinstance(message, Message):
            check_kind("what is sent", message, (Message,), "a Message")
        check_topic(message.topic)
        message.check()
        if not message.body:
            raise UnsendableMessageError("the message body is empty")
        if len(message.body) > self._how.max_message_size:
            raise UnsendableMessageError(
                f"the message body has {len(message.body)} bytes, the limit is "
                f"{self._how.max_message_size}"
            )
        if message.properties:
            self._check_properties(message)

    def _check_properties(self, message: Message) -> None:
        for name in TIMER_PROPERTIES & message.properties.keys():
            raise UnsendableMessageError(f"property {name}: set deliver_at or delay instead")
        if PRIORITY in message.properties:
            raise UnsendableMessageError(f"property {PRIORITY}: set priority instead")
        level = message.properties.get(DELAY)
        if level is not None and not _LEVEL.fullmatch(level):
            raise UnsendableMessageError(f"property {DELAY}: set delay_time_level or delay instead")
        if TRAN_MSG in message.properties:
            raise UnsendableMessageError(
                f"property {TRAN_MSG}: TransactionalProducer.send_in_transaction sets it"
            )

    def properties(self, message: Message) -> dict[str, str]:
        """All properties of a message; it gets an id if it has none."""
        properties = message.all_properties()
        if UNIQ_KEY not in properties:
            properties[UNIQ_KEY] = unique_key(self._address)
        if self._how.namespace:
            properties[INSTANCE_ID] = self._how.namespace
        return properties

    async def plain(self, message: Message) -> Outgoing:
        """The request for a checked message."""
        usual = self._usual.properties(message)
        if usual is None:
            self.check(message)
            return await self.single(message, self.properties(message))
        check_topic(message.topic)
        return await self._request(message, *usual)

    async def single(
        self, message: Message, properties: dict[str, str], sys_flag: int = 0
    ) -> Outgoing:
        """The request for a checked message with these properties."""
        text = encode_properties(properties)
        reply = properties.get(MESSAGE_TYPE) == REPLY
        return await self._request(message, properties[UNIQ_KEY], text, sys_flag, reply=reply)

    async def _request(
        self, message: Message, key: str, properties: str, sys_flag: int = 0, *, reply: bool = False
    ) -> Outgoing:
        how, body = self._how, message.body
        if len(body) >= how.compress_over:
            args = (body, how.compress_type, how.compress_level)
            if len(body) <= COMPRESS_HERE:
                body = compress(*args)
            else:
                body = await trio.to_thread.run_sync(compress, *args, limiter=self._threads)
            sys_flag |= how.compress_type.sys_flag
        topic = message.topic if reply else with_namespace(how.namespace, message.topic)
        header = SendHeader(how.group, topic, properties, flag=message.flag, sys_flag=sys_flag)
        code = RequestCode.SEND_REPLY_MESSAGE_V2 if reply else send_code(False)
        return Outgoing(code, topic, key, header, body, sys_flag, message)

    def usual_entry(self, message: Message) -> tuple[str, bytes] | None:
        """As `entry`, if the message is a usual one (see MessageText)."""
        usual = self._usual.entry(message)
        if usual is not None:
            check_topic(message.topic)
        return usual

    def entry(self, message: Message) -> tuple[str, bytes]:
        """The id of a checked message, and its bytes in a batch. Raises UnsendableMessageError if
        it fits into no batch."""
        usual = self.usual_entry(message)
        if usual is not None:
            return usual
        self.check(message)
        return self._packed(message)

    def batch_entry(self, message: Message) -> tuple[str, bytes] | None:
        """As `entry`; None for a message that must be sent alone."""
        usual = self.usual_entry(message)
        if usual is not None:
            return usual
        self.check(message)
        if PRODUCER_GROUP in message.properties:
            return None
        try:
            return self._packed(message)
        except UnsendableMessageError:
            return None

    def _packed(self, message: Message) -> tuple[str, bytes]:
        check_batchable(message)
        properties = self.properties(message)
        text = encode_properties(properties)
        return properties[UNIQ_KEY], encode_entry(message.flag, message.body, text)

    def batch(self, messages: Sequence[Message]) -> Outgoing:
        """The request for messages that are stored in a row."""
        if not messages:
            raise UnsendableMessageError("a batch needs at least one message")
        first = messages[0]
        entries = []
        for message in messages:
            entry = self.entry(message)
            if message.topic != first.topic or message.wait_store_ok != first.wait_store_ok:
                raise UnsendableMessageError(
                    "the messages of a batch share topic and wait_store_ok"
                )
            entries.append(entry)
        return self.batch_of(first, entries)

    def batch_of(self, first: Message, entries: Sequence[tuple[str, bytes]]) -> Outgoing:
        """The request for entries of one batch; `first` is the message of one of them."""
        key = ",".join([key for key, _ in entries])
        body = b"".join([entry for _, entry in entries])
        if len(body) > self._how.max_message_size:
            raise UnsendableMessageError(
                f"the batch has {len(body)} bytes, the limit is {self._how.max_message_size}: "
                "split it, or use send_batches"
            )
        wait = encode_properties({"WAIT": "true" if first.wait_store_ok else "false"})
        topic = with_namespace(self._how.namespace, first.topic)
        header = SendHeader(self._how.group, topic, wait, flag=0, batch=True)
        return Outgoing(send_code(True), topic, key, header, body)


def check_batchable(message: Message) -> None:
    """Raises UnsendableMessageError for a message that fits into no batch."""
    if message.topic.startswith(RETRY_PREFIX):
        raise UnsendableMessageError("a batch goes to no retry topic")
    if message.is_delayed:
        raise UnsendableMessageError("the messages of a batch cannot be delayed")
    if message.has_priority:
        raise UnsendableMessageError(
            "a message with a priority goes into no batch: it chooses the queue"
        )
    if message.properties.get(MESSAGE_TYPE) == REPLY:
        raise UnsendableMessageError("a reply goes into no batch")


def batch_size(message: Message) -> int:
    """Most bytes that a message needs in a batch."""
    properties = message.all_properties()
    text = "".join(f"{name}{value}" for name, value in properties.items())
    size = len(text) if text.isascii() else len(text.encode(errors="replace"))
    return 22 + len(message.body) + size + 2 * len(properties) + _OWN + _NAMESPACE


def split_batches(messages: Iterable[Message], limit: int = BATCH_LIMIT) -> Iterator[list[Message]]:
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
