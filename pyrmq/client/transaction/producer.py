"""Messages that become visible together with a local transaction. [TransactionMQProducer]

A half message is stored where consumers do not see it. Then the local transaction runs, and its
outcome, COMMIT or ROLLBACK, decides about the half. If the broker gets no outcome (the process
died, the answer was lost, the outcome was UNKNOWN), it asks a live producer of the group. The check
of that producer must answer only from what the local transaction stored.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any, Self, Unpack, overload

import trio

from pyrmq.client.brokers import Registration
from pyrmq.client.checks import check_topic
from pyrmq.client.instance import ROUTE_INTERVAL
from pyrmq.client.option_types import (
    ProducerOptions,
    TransactionOptions,
    check_types,
    with_options_of,
)
from pyrmq.client.producer.outgoing import Outgoing
from pyrmq.client.producer.producer import Producer
from pyrmq.client.telemetry import Work, watched
from pyrmq.client.transaction.halves import (
    CheckPool,
    end_fields,
    half_of,
    listeners_properties,
    mark,
    tell,
    told_end,
    trace_end,
)
from pyrmq.client.transaction.listener import (
    Execute,
    Outcome,
    TransactionFunction,
    TransactionListener,
    TransactionSendResult,
    TransactionStatistics,
    outcome_of,
)
from pyrmq.errors import (
    ClientError,
    NoPermissionError,
    PyrmqError,
    RequestTimeoutError,
    TopicNotExistError,
    TransactionConflictError,
)
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.message import Message, MessageQueue, SendResult, SendStatus
from pyrmq.model.properties import UNIQ_KEY
from pyrmq.model.record import ReceivedMessage
from pyrmq.model.transaction import (
    REAL_TOPIC,
    TRANSACTION_ID,
    TransactionState,
)
from pyrmq.net.client.channel import Channel
from pyrmq.net.tasks import Tasks

log = logging.getLogger(__name__)

PREPARED = 0x4
"""sysFlag of the request that sends a half. [MessageSysFlag.TRANSACTION_PREPARED_TYPE]"""
CHECK_CONCURRENCY = 4
CHECK_QUEUE = 2000
EXECUTE_THREADS = 40
"""Local transactions that run at a time as plain functions."""
END_TIMEOUT = 3.0
CLOSE_GRACE = 3.0
"""Seconds that running checks have to end when the producer closes."""
ENTER_TIMEOUT = 1.0
"""Seconds that opening waits for brokers that do not answer."""
REGISTER_PAUSE = 0.5
"""Seconds until a broker that could not be reached is tried again; up to ROUTE_INTERVAL."""


class TransactionalProducer(Producer):
    """Sends messages in transactions, and others as `Producer` does; an async context manager.

        class Orders:
            async def execute_local_transaction(self, message, arg): ...
            async def check_local_transaction(self, message): ...

        async with TransactionalProducer("orders", Orders(), namesrv=...) as producer:
            result = await producer.send_in_transaction(Message("T", b"..."), arg)

    or with functions, one pair for a topic or for all topics that have none:

        producer = TransactionalProducer("orders", namesrv=...)

        @producer.transaction("T")
        async def place_order(message, order): ...

        @place_order.check
        async def _(message): ...

        async with producer:
            result = await place_order(Message("T", b"..."), order)

    All producers of a group answer for each other, so they need the same listeners. From the start,
    every master broker that the name server knows can ask this producer.

    topics: limits that to the brokers of these topics.
    check_concurrency: checks (4) that run at a time, while up to `check_queue` (2000) wait; further
    ones are dropped, and the broker asks again.
    execute_threads: local transactions (40) that run at a time as plain functions.
    Other options are `Producer`'s.

    Raises ClientError for a listener without both functions; opening raises it if there is no
    listener, or if a decorated function has no check.
    """

    @with_options_of(Producer)
    def __init__(
        self,
        group: str,
        listener: TransactionListener | None = None,
        *,
        topics: Iterable[str] | None = None,
        check_concurrency: int = CHECK_CONCURRENCY,
        check_queue: int = CHECK_QUEUE,
        execute_threads: int = EXECUTE_THREADS,
        **producer_options: Unpack[ProducerOptions],
    ) -> None:
        check_types(TransactionOptions, locals())
        super().__init__(group, **producer_options)
        self._topics = (
            None if topics is None else [topics] if isinstance(topics, str) else [*topics]
        )
        for topic in self._topics or ():
            check_topic(topic)
        for name in ("execute_local_transaction", "check_local_transaction"):
            if listener is not None and not callable(getattr(listener, name, None)):
                raise ClientError(f"the listener has no function {name}")
        self._listener = listener
        self._by_topic: dict[str, TransactionListener] = {}
        self._pool = CheckPool(
            self._wire_group,
            self._check_back,
            check_concurrency,
            check_queue,
            self._checked,
            self._telemetry,
        )
        self._execute_threads = trio.CapacityLimiter(execute_threads)
        self._check_threads = trio.CapacityLimiter(check_concurrency)
        self._outcomes = dict.fromkeys(TransactionState, 0)
        self._halves = self._ends_failed = 0
        self._tasks = Tasks()
        self._was_refused = False
        """Whether the name servers have refused to say which brokers there are."""
        self._registration = Registration(
            self._client,
            first_pause=REGISTER_PAUSE,
            longest_pause=ROUTE_INTERVAL,
            find=self._find_brokers,
        )

    @overload
    def transaction(self, topic: Execute) -> TransactionFunction: ...

    @overload
    def transaction(self, topic: str | None = None) -> Callable[[Execute], TransactionFunction]: ...

    def transaction(
        self, topic: Execute | str | None = None
    ) -> TransactionFunction | Callable[[Execute], TransactionFunction]:
        """Decorates the function that runs the local transaction for messages of `topic`, or of all
        topics without a function of their own. Its `check` decorates the other function."""
        if callable(topic):
            return self._add(None, topic)
        if topic is not None:
            check_topic(topic)
        return lambda execute: self._add(topic, execute)

    def _add(self, topic: str | None, execute: Execute) -> TransactionFunction:
        function = TransactionFunction(self, execute)
        if topic is None:
            if self._listener is not None:
                raise ClientError("there is a transaction for all topics already: name its topic")
            self._listener = function
        elif topic in self._by_topic:
            raise ClientError(f"topic {topic} has a transaction already")
        else:
            self._by_topic[topic] = function
        return function

    def listener_of(self, topic: str) -> TransactionListener | None:
        """The listener for transactions of a topic."""
        return self._by_topic.get(topic, self._listener)

    def statistics(self) -> TransactionStatistics:
        """Counters since the start."""
        pool, outcomes = self._pool, self._outcomes
        return TransactionStatistics(
            halves_sent=self._halves,
            committed=outcomes[TransactionState.COMMIT],
            rolled_back=outcomes[TransactionState.ROLLBACK],
            unknown=outcomes[TransactionState.UNKNOWN],
            ends_failed=self._ends_failed,
            checks_answered=pool.answered,
            checks_dropped=pool.dropped,
            checks_failed=pool.failed,
            checks_unreadable=self._client.incoming.unreadable_checks,
            checks_waiting=pool.waiting,
            checks_running=pool.running,
        )

    async def __aenter__(self) -> Self:
        listeners = [*self._by_topic.values(), *([self._listener] if self._listener else [])]
        if not listeners:
            raise ClientError("no listener: pass one or decorate a function with .transaction")
        for each in listeners:
            if isinstance(each, TransactionFunction) and not each.has_check:
                raise ClientError(
                    f"transaction {each.__name__} has no check: decorate one with "
                    f"@{each.__name__}.check"
                )
        return await super().__aenter__()

    async def _enter(self, stack: AsyncExitStack) -> None:
        await stack.enter_async_context(self._client)
        await stack.enter_async_context(self._pool)
        stack.push_async_callback(self._pool.close, CLOSE_GRACE)
        stack.push_async_callback(self._unregister)  # so that brokers ask others from now on
        if self._tracer is not None:
            await stack.enter_async_context(self._tracer)
        await self._enter_helpers(stack)
        await stack.enter_async_context(self._tasks)
        self._client.incoming.on_check[self._wire_group] = self._pool.offer
        self._tasks.start_soon(self._registration.run)
        with trio.move_on_after(ENTER_TIMEOUT):
            await self._registration.tried.wait()

    # Being found: a broker asks only those whose heartbeat came on a connection that lives.

    async def _find_brokers(self) -> bool:
        """Finds the brokers that may ask this producer. Returns whether the name servers
        answered."""
        try:
            if self._topics is None:
                await self._client.find_all_masters()
            for topic in self._topics or ():
                with suppress(TopicNotExistError):  # nobody has halves of it
                    await self._client.routes.route(self._names.wire(topic))
        except NoPermissionError as e:  # asked again in a moment, it would say the same
            if not self._was_refused:
                self._was_refused = True
                log.warning(
                    "only brokers to which group %s has sent ask it about transactions: give "
                    "topics=, or its user Get on Cluster:* at the name servers: %s",
                    self.group,
                    escape(e),
                    extra=about(group=self.group),
                )
        except PyrmqError as e:
            log.info(
                "brokers of group %s not found: %s",
                self.group,
                escape(e),
                extra=about(group=self.group),
            )
            return False
        return True

    def _channel_now(self, queue: MessageQueue, topic: str) -> Channel | None:
        channel = super()._channel_now(queue, topic)
        return channel if channel is not None and channel.greeted else None

    async def _channel_of(self, queue: MessageQueue, topic: str) -> Channel:
        """Registers this producer with the broker before the broker gets a half, because no other
        producer may be there to ask."""
        channel = await super()._channel_of(queue, topic)
        await self._client.greet(channel)
        return channel

    # Sending.

    async def send_in_transaction(
        self,
        message: Message,
        arg: Any = None,
        *,
        queue: MessageQueue | None = None,
        timeout: float | None = None,
        check_immunity: int | None = None,
    ) -> TransactionSendResult:
        """Sends a half, runs the local transaction with `arg`, and sends its outcome to the broker.

        `queue` and `timeout` apply to the half, as in `send`. If the half fails, its error is
        raised and the local transaction does not run, but the broker may have the half and ask. An
        error of the local transaction is in the result, with the state UNKNOWN. If the half's
        `status` is not SEND_OK, the local transaction does not run, and the state is ROLLBACK.
        check_immunity: whole seconds before the broker asks for the first time; an outcome that
        comes later counts only as the answer to a check.

        Returns when the broker has confirmed COMMIT or ROLLBACK, after 3 s at most; then it logs
        that there is no confirmation, and the broker asks.

        Raises TransactionConflictError if another producer of the group has answered a check with
        the other state. That state counts for the message, although the local transaction ended
        otherwise. Raises NotSentError for a message that cannot be sent in a transaction,
        ClientError if its topic has no decorated function, and otherwise as `send`.
        """
        half = half_of(message)
        self._packer.check(half)
        mark(half, self._wire_group, check_immunity)
        listener = self.listener_of(message.topic)
        if listener is None:
            raise ClientError(f"no transaction was decorated for topic {message.topic}")
        half.properties |= await listeners_properties(listener)
        whole = self._transact(half, listener, arg, queue, timeout)
        return await watched(self._telemetry, Work.TRANSACTION, half, whole)

    async def _transact(
        self,
        half: Message,
        listener: TransactionListener,
        arg: Any,
        queue: MessageQueue | None,
        timeout: float | None,
    ) -> TransactionSendResult:
        request: Outgoing | None = None

        async def send(halves: Sequence[Message]) -> SendResult:
            nonlocal half, request
            half = halves[0]
            request = await self._packer.single(half, self._packer.properties(half), PREPARED)
            return await self._deliver(request, queue, None, timeout)

        sent = await (send([half]) if self._hooks is None else self._hooks.around([half], send))
        assert request is not None
        self._halves += 1
        outcome = Outcome(TransactionState.ROLLBACK)
        if sent.status is SendStatus.SEND_OK:
            half.properties[UNIQ_KEY] = request.key
            if sent.transaction_id:
                half.properties[TRANSACTION_ID] = sent.transaction_id
            execute = listener.execute_local_transaction
            run = outcome_of(execute, half, arg, threads=self._execute_threads)
            outcome = await watched(self._telemetry, Work.EXECUTE, half, run)
        self._outcomes[outcome.state] += 1
        await self._end(sent, outcome, half)
        sent = self._names.shown_result(sent)
        return TransactionSendResult.of(sent, outcome)

    async def _end(self, sent: SendResult, outcome: Outcome, half: Message) -> None:
        """END_TRANSACTION. A cancellation does not stop it, because the outcome is already decided.
        Raises TransactionConflictError if the broker has settled the half the other way."""
        queue = sent.queue
        try:
            with trio.move_on_after(END_TIMEOUT, shield=True) as limit:
                fields = end_fields(sent, self._wire_group, outcome.state)
                channel = await self._client.master(queue.topic, queue.broker_name)
                telling = tell(channel, outcome, fields, END_TIMEOUT)
                await told_end(self._telemetry, half, outcome, telling)
                trace_end(
                    self._tracer,
                    half.all_properties(),
                    queue.topic,
                    sent.msg_id,
                    channel,
                    outcome.state,
                )
            if limit.cancelled_caught:
                raise RequestTimeoutError(f"no answer in {END_TIMEOUT:g} s")
        except TransactionConflictError as e:
            self._ends_failed += 1
            log.error(
                "%s of transaction %s: %s",
                outcome.state,
                escape(sent.msg_id),
                escape(e),
                extra=about(message_id=sent.msg_id),
            )
            raise
        except PyrmqError as e:
            self._ends_failed += 1
            log.info(
                "it is not certain that the broker has %s of transaction %s, it will check: %s",
                outcome.state,
                escape(sent.msg_id),
                escape(e),
                extra=about(message_id=sent.msg_id),
            )

    def _checked(self, channel: Channel, message: ReceivedMessage, state: TransactionState) -> None:
        properties = message.properties
        topic = properties.get(REAL_TOPIC, message.topic)
        msg_id = message.msg_id
        trace_end(self._tracer, properties, topic, msg_id, channel, state, from_check=True)

    # Being asked.

    async def _check_back(self, message: ReceivedMessage) -> Outcome:
        topic = message.properties.get(REAL_TOPIC, message.topic)
        # As `execute_local_transaction` has seen it: the name of users, and not the half's.
        message.topic = topic = self._names.shown(topic)
        listener = self.listener_of(topic)
        if listener is None:
            error = ClientError(f"no transaction was decorated for topic {topic}")
            log.error(
                "check of %s: %s",
                escape(message.msg_id),
                escape(error),
                extra=about(message_id=message.msg_id),
            )
            return Outcome(TransactionState.UNKNOWN, error)
        check = listener.check_local_transaction
        run = outcome_of(check, message, threads=self._check_threads, abandon=True)
        return await watched(self._telemetry, Work.CHECK, message, run)
