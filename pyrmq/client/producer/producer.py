"""Sending messages. [DefaultMQProducer]"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from pyrmq.client.checks import check_group, check_queue, check_trace
from pyrmq.client.hooks import SendHooks, SendMessageHook
from pyrmq.client.instance import ClientInstance, within
from pyrmq.client.namespaces import Namespace, Selector
from pyrmq.client.option_types import ProducerOptions, check_types
from pyrmq.client.producer.base import ProducerBase
from pyrmq.client.producer.delivery import Delivery, InFlight, SendRules
from pyrmq.client.producer.outgoing import Packer, Packing, split_batches
from pyrmq.client.producer.pending import Requests
from pyrmq.client.telemetry import Work, producer_telemetry
from pyrmq.errors import ClientError, PyrmqError
from pyrmq.model.compression import CompressionType
from pyrmq.model.message import Message, MessageQueue, SendResult
from pyrmq.model.names import TRACE_TOPIC
from pyrmq.model.record import ReceivedMessage
from pyrmq.model.retry import RETRY_CODES
from pyrmq.net.client.credentials import Credentials
from pyrmq.net.client.tls import Tls

if TYPE_CHECKING:
    # Imported where they are used: most producers need neither.
    from pyrmq.client.producer.accumulator import Accumulator
    from pyrmq.client.producer.pending import PendingSend
    from pyrmq.client.producer.send_soon import SoonSender
    from pyrmq.client.trace.tracer import Tracer

SEND_TIMEOUT = 3.0
RETRY_TIMES = 2
MAX_MESSAGE_SIZE = 4 << 20
COMPRESS_OVER = 4096
COMPRESS_LEVEL = 5
MAX_IN_FLIGHT = 1024
MAX_IN_FLIGHT_BYTES = 100 << 20
BATCH_DELAY = 0.01
BATCH_BYTES = 32 << 10
BATCH_TOTAL_BYTES = 32 << 20


class Producer(ProducerBase):
    """Sends messages; an async context manager on trio. One producer serves any number of tasks.

        async with Producer("group", namesrv="127.0.0.1:9876") as producer:
            result = await producer.send(Message("TopicTest", b"Hello"))

    group: name of the producer group, 1 to 255 of the characters `%|a-zA-Z0-9_-`.
    namesrv: name servers, `host:port[;host:port]`; default: the environment variable NAMESRV_ADDR.
    credentials, tls: sign all requests (`Credentials`); connect with TLS (`Tls`).
    namespace: on brokers, topics and the group are called `namespace%name`.
    namespace_v2: names stay as they are, and every request has this namespace as a field, as with
    RocketMQ 5's clients.
    send_timeout: seconds for one `send` with all its attempts; default 3.
    attempt_timeout: seconds for one attempt while others are left. By default each attempt has an
    equal part of the remaining time, at least one second for each MiB. If nothing arrives on a
    connection for that long (and at least 0.1 s), the producer closes it.
    retry_times: further attempts after a failed one; default 2. With a queue of the caller's choice
    there are none.
    retry_codes: answers after which there is another attempt.
    retry_another_broker_when_not_store_ok: also try again if the `status` is not SEND_OK.
    send_latency_fault: send nothing for a while to brokers that answered late or not at all.
    start_detector: if all brokers are avoided in this way, choose reachable ones first, and probe
    the others every three seconds until they answer.
    max_message_size: longest body or batch, in bytes before compression; default 4 MiB. The
    broker's maxMessageSize is another limit.
    compress_over: bodies of so many bytes and more are compressed (default 4096) with compress_type
    and compress_level (default ZLIB, 5).
    max_in_flight, max_in_flight_bytes: messages, and bytes of their bodies, that may wait for
    answers (1024 and 100 MiB); further sends wait for room.
    auto_batch: small messages of concurrent sends share a request of at most batch_bytes (32 KiB)
    if they have the same topic, queue, tags and wait_store_ok. A message waits for others at most
    batch_delay seconds (0.01), and only while such a request is in flight. Waiting messages have at
    most batch_total_bytes (32 MiB). These are sent alone: messages beyond that, delayed ones, and
    sends with `select`, `sharding_key` or a `timeout`. `send_soon` needs auto_batch; it holds
    another batch_total_bytes at most, and waits at that limit.
    trace: record sent messages in trace_topic, by default RMQ_SYS_TRACE_TOPIC.
    hooks: SendMessageHooks, called before and after each send, batch, request and half.

    Raises UnusableNameError for the group, ConfigError without a name server or for an invalid
    address, and ClientError if another argument is invalid.
    """

    def __init__(
        self,
        group: str,
        *,
        namesrv: str | None = None,
        credentials: Credentials | None = None,
        tls: Tls | None = None,
        namespace: str = "",
        namespace_v2: str = "",
        send_timeout: float = SEND_TIMEOUT,
        attempt_timeout: float | None = None,
        retry_times: int = RETRY_TIMES,
        retry_codes: Collection[int] = RETRY_CODES,
        retry_another_broker_when_not_store_ok: bool = False,
        send_latency_fault: bool = False,
        start_detector: bool = False,
        max_message_size: int = MAX_MESSAGE_SIZE,
        compress_over: int = COMPRESS_OVER,
        compress_type: CompressionType = CompressionType.ZLIB,
        compress_level: int = COMPRESS_LEVEL,
        max_in_flight: int = MAX_IN_FLIGHT,
        max_in_flight_bytes: int = MAX_IN_FLIGHT_BYTES,
        auto_batch: bool = False,
        batch_delay: float = BATCH_DELAY,
        batch_bytes: int = BATCH_BYTES,
        batch_total_bytes: int = BATCH_TOTAL_BYTES,
        trace: bool = False,
        trace_topic: str = TRACE_TOPIC,
        hooks: Sequence[SendMessageHook] = (),
    ) -> None:
        check_types(ProducerOptions, locals())
        check_group(group)
        self.group = group
        self.namespace = namespace
        self._names = Namespace(namespace)
        self._wire_group = self._names.wire(group)
        check_group(self._wire_group)
        rules = SendRules(
            send_timeout,
            attempt_timeout,
            retry_times,
            frozenset(retry_codes),
            retry_another_broker_when_not_store_ok,
            send_latency_fault,
            start_detector,
        )
        rules.check()
        self._client = ClientInstance(
            namesrv, namespace_v2=namespace_v2, credentials=credentials, tls=tls
        )
        self._client.producer_groups.add(self._wire_group)
        packing = Packing(
            self._wire_group,
            namespace,
            max_message_size,
            compress_over,
            compress_type,
            compress_level,
        )
        self._packer = Packer(packing)
        in_flight = InFlight(max_in_flight, max_in_flight_bytes)
        self._delivery = Delivery(
            self._client, rules, in_flight, self._channel_of, self._channel_now
        )
        self._requests = Requests(self._client)
        self._max_size = max_message_size
        self._accumulator: Accumulator | None = None
        self._soon: SoonSender | None = None
        self._telemetry = producer_telemetry(group, namespace, namespace_v2, self._client)
        self._hooks: SendHooks | None = None
        if hooks or self._telemetry is not None:
            self._hooks = SendHooks(group, hooks, self._telemetry)
        limits = (batch_delay, batch_bytes, batch_total_bytes)
        if auto_batch:
            from pyrmq.client.producer.accumulator import Accumulator, BatchLimits

            batches = BatchLimits(*limits).within(max_message_size)
            self._accumulator = Accumulator(self._packer, batches, self._deliver_batch)
            from pyrmq.client.producer.send_soon import SoonSender

            self._soon = SoonSender(
                self._packer,
                batches,
                self._deliver_batch
                if self._hooks is None
                else self._hooks.soon_batches(self._deliver_batch, self._names.shown),
                self._names.shown_result,
                send_timeout,
            )
        elif limits != (BATCH_DELAY, BATCH_BYTES, BATCH_TOTAL_BYTES):
            raise ClientError("batch_delay, batch_bytes and batch_total_bytes need auto_batch=True")
        self._tracer: Tracer | None = None
        check_trace(trace, trace_topic)
        if trace:
            from pyrmq.client.trace.tracer import Tracer, sender_group

            inner = Producer(
                sender_group(self._wire_group, "PRODUCE"),
                send_timeout=5.0,
                **self._client.connecting,
            )
            self._tracer = Tracer(inner, group, namespace=namespace, topic=trace_topic)
        self._leaving = AsyncExitStack()

    @property
    def unsent(self) -> int:
        """Messages of `send_soon` that no broker has answered yet. After closing: those that failed
        and whose results were never awaited."""
        return 0 if self._soon is None else self._soon.unanswered

    async def queues(self, topic: str, *, timeout: float | None = None) -> list[MessageQueue]:
        """The queues of a topic that accept messages, sorted by broker name and queue id.

        For a topic that does not exist yet: the queues that it will have. timeout: seconds, instead
        of `send_timeout`.

        Raises TopicNotExistError if no broker creates the topic on demand, ClientError if none of
        its queues accepts messages, and RequestTimeoutError.
        """
        limit = self._delivery.timeout if timeout is None else timeout
        with within(limit, f"no route of topic {topic}", self._client.routes.no_answer):
            found = await self._delivery.queues(self._names.wire(topic))
        return self._names.shown_queues(list(found))

    async def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        select: Selector | None = None,
        sharding_key: str | None = None,
        timeout: float | None = None,
    ) -> SendResult:
        """Sends one message and waits until the broker has it.

        queue: the target, one of `queues(topic)`. select: a function that chooses one of them.
        sharding_key: messages with the same key go to the same queue, in the order of the sends (as
        with `select_by_hash(key)`); consumers see it as the property `__SHARDINGKEY`.
        Without these three, sends use the queues in rotation, and a failure is retried on another
        broker; with one of them there is one attempt.
        timeout: seconds, instead of `send_timeout`.

        A `status` other than SEND_OK means that the broker stored the message but did not flush or
        replicate it in time.

        Raises NotSentError if the message cannot be sent, ResponseError if the broker refused it,
        and RequestTimeoutError or ConnectError if it is unknown whether the broker has it. After
        several attempts it raises the error of the last one.
        """
        if self._hooks is None:
            return await self._send(message, queue, select, sharding_key, timeout)
        self._packer.check(message)
        return await self._hooks.around(
            [message],
            lambda sent: self._send(sent[0], queue, select, sharding_key, timeout),
            ordering_key=sharding_key,
        )

    async def send_soon(
        self, message: Message, *, queue: MessageQueue | None = None
    ) -> PendingSend:
        """Takes one message and returns at once; the message is sent in a batch, in the background.

            pending = await producer.send_soon(Message("TopicTest", b"Hello"))
            result = await pending  # or pending.result(); only if it is of interest
            await producer.flush()

        Needs `auto_batch=True` and no `hooks`. It waits only while the producer holds
        batch_total_bytes. If it is cancelled, the message was not taken.

        Messages that fit into no batch (large or delayed ones, replies, messages to a retry topic)
        are sent alone, also in the background. With `queue`, one of `queues(topic)`, messages are
        stored in the order of the calls, but one that timed out may be stored after later ones.
        Without `queue` the queues are used in rotation and there is no order. `send_timeout` counts
        from when a batch leaves.

        If a batch fails, all of its messages fail. If their results were never awaited, `flush`
        raises, or closing the producer logs an error. Closing sends the remaining messages as long
        as brokers accept them.

        Raises NotSentError if the message cannot be sent.
        """
        if self._soon is None:
            raise ClientError("send_soon needs a producer with auto_batch=True")
        if self._hooks is not None:
            self._packer.check(message)
            return await self._hooks.soon(message, queue, self._soon)
        return self._soon.take(message, queue) or await self._soon.send(message, queue)

    async def flush(self) -> None:
        """Sends all messages that `send_soon` has taken so far, and returns when all are answered.

        Raises SendsFailedError, once, if messages failed and their results were never awaited.
        """
        if self._soon is None:
            raise ClientError("flush is for send_soon, which needs auto_batch=True")
        await self._soon.flush()

    async def request(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        select: Selector | None = None,
        sharding_key: str | None = None,
        timeout: float | None = None,
    ) -> ReceivedMessage:
        """Sends a message and returns the reply that its consumer sends with `reply_to`.

        timeout: seconds for both, instead of `send_timeout`. Raises RequestTimeoutError without a
        reply, and otherwise as `send`. A request that is sent again may get two replies; the first
        one counts.
        """
        self._packer.check(message)

        async def ask(sent: Sequence[Message]) -> ReceivedMessage:
            message = sent[0]
            properties, chosen = self._keyed(message, select, sharding_key)

            async def send(left: float) -> SendResult:
                request = await self._packer.single(message, properties)
                return await self._deliver(request, queue, chosen, left)

            limit = self._delivery.timeout if timeout is None else timeout
            return await self._requests.ask(properties, limit, send)

        if self._hooks is None:
            return await ask([message])
        return await self._hooks.around(
            [message], ask, work=Work.REQUEST, ordering_key=sharding_key
        )

    async def send_batch(
        self,
        messages: Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        timeout: float | None = None,
    ) -> SendResult:
        """Sends messages of one topic in one request; the broker stores all of them in a row, or
        none.

        Together they have at most `max_message_size` bytes, and the same `wait_store_ok`. Bodies
        are not compressed. `msg_id` of the result has all ids, joined by commas. Raises as `send`.
        """
        request = self._packer.batch(messages)
        if self._hooks is None:
            return self._names.shown_result(await self._deliver(request, queue, None, timeout))

        async def send(sent: Sequence[Message]) -> SendResult:
            again = self._packer.batch(sent)  # hooks may have set properties
            return self._names.shown_result(await self._deliver(again, queue, None, timeout))

        return await self._hooks.around(messages, send, batch=True)

    async def send_batches(
        self,
        messages: Iterable[Message],
        *,
        queue: MessageQueue | None = None,
        timeout: float | None = None,
    ) -> list[SendResult]:
        """Sends any number of messages, in as many batches as necessary, one after the other.

        It reads the iterable while it sends. Consecutive messages with the same topic and
        `wait_store_ok` make batches of at most `max_message_size` bytes (`split_batches`). timeout:
        seconds for one batch. An error has a note with the number of messages sent before.
        """
        results: list[SendResult] = []
        sent = 0
        try:
            for batch in split_batches(messages, self._max_size):
                results.append(await self.send_batch(batch, queue=queue, timeout=timeout))
                sent += len(batch)
        except PyrmqError as e:
            e.add_note(f"{sent} messages were sent before, in {len(results)} batches")
            raise
        return results

    async def recall(self, topic: str, handle: str, *, timeout: float | None = None) -> str:
        """Takes back a timer message (sent with `delay` or `deliver_at`) before its time, and
        returns its `msg_id`.

        handle: `recall_handle` of its SendResult; any producer may use it. timeout: seconds,
        instead of `send_timeout`.

        The broker that has the message answers when it has stored the recall; it does not say
        whether the message was still there. It refuses recalls that come in the last second before
        the message's time. Sending one again does no harm.

        Raises NotSentError if it is not a handle of this topic; NoPermissionError if the broker
        does not permit recalls (recallMessageEnable), IllegalOperationError if the time of the
        message is over or comes in a second, TopicNotExistError and other ResponseErrors; and
        RequestTimeoutError or ConnectError if it is unknown whether the broker has the recall.
        """
        limit = self._delivery.timeout if timeout is None else timeout
        return await self._recall(topic, handle, limit)

    async def send_oneway(
        self, message: Message, *, queue: MessageQueue | None = None, timeout: float | None = None
    ) -> None:
        """Sends a message without waiting for an answer, so a lost message is not noticed.

        timeout: seconds until the message must have left, instead of `send_timeout`. Raises
        NotSentError, RequestTimeoutError and ConnectError as `send`, and TopicNotExistError and
        ClientError as `queues`.
        """
        check_queue(queue)
        if self._hooks is None:
            await self._send_oneway(message, queue, timeout)
        else:
            self._packer.check(message)
            await self._hooks.around(
                [message], lambda sent: self._send_oneway(sent[0], queue, timeout), oneway=True
            )
