"""Attempts to send: how many at a time, to which queue, for how long, and what follows a failure.
[DefaultMQProducerImpl.sendDefaultImpl]"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

import trio

from pyrmq.client.checks import check_kind
from pyrmq.client.instance import ClientInstance
from pyrmq.client.namespaces import Selector
from pyrmq.client.producer.faults import Detector, FaultTable, QueueChooser
from pyrmq.client.producer.outgoing import Outgoing
from pyrmq.client.routes import keep
from pyrmq.engine import Command
from pyrmq.errors import (
    ClientError,
    ConnectError,
    NoPermissionError,
    PyrmqError,
    RequestTimeoutError,
    ResponseError,
    UnsendableMessageError,
)
from pyrmq.escape import escape
from pyrmq.model.codes import V5_0_0, ResponseCode, version_name
from pyrmq.model.message import MessageQueue, SendResult, SendStatus
from pyrmq.model.retry import may_send_again
from pyrmq.model.route import TopicRoute
from pyrmq.net.client.channel import Channel
from pyrmq.net.client.requests import SendRequest, stored_at

log = logging.getLogger(__name__)

SLOW_LINK = 1 << 20
"""Bytes of a body a second below which its attempt is given up."""
ROUTE_CODES = (ResponseCode.NO_PERMISSION, ResponseCode.TOPIC_NOT_EXIST)
"""Answers after which a newer route may have other brokers."""
_STATUS = {status.value: status for status in SendStatus}


@dataclass(slots=True, eq=False)
class _Waiter:
    size: int
    event: trio.Event


class InFlight:
    """Admits so many messages with so many bytes at once; others wait in the order of their
    arrival. A message larger than the limit goes alone."""

    def __init__(self, messages: int, size: int) -> None:
        if messages < 1 or size < 1:
            raise ClientError("max_in_flight and max_in_flight_bytes must be at least 1")
        self.messages = self.bytes = 0
        self._most_messages = messages
        self._most_bytes = size
        self._waiting: deque[_Waiter] = deque()

    def try_enter(self, size: int) -> bool:
        """Whether there was room and nobody else waits for it; then call `leave` afterwards."""
        return not self._waiting and self._enter(size)

    def _enter(self, size: int) -> bool:
        if self.messages and (
            self.messages >= self._most_messages or self.bytes + size > self._most_bytes
        ):
            return False
        self.messages += 1
        self.bytes += size
        return True

    async def enter(self, size: int) -> None:
        """Returns when there is room; then call `leave` afterwards."""
        if self.try_enter(size):
            return
        waiter = _Waiter(size, trio.Event())
        self._waiting.append(waiter)
        try:
            await waiter.event.wait()
        except trio.Cancelled:
            if waiter.event.is_set():
                self.leave(size)
            else:
                self._waiting.remove(waiter)
                self._let_in()
            raise

    def leave(self, size: int) -> None:
        self.messages -= 1
        self.bytes -= size
        self._let_in()

    def _let_in(self) -> None:
        while self._waiting and self._enter(self._waiting[0].size):
            self._waiting.popleft().event.set()


@dataclass(frozen=True, slots=True)
class SendRules:
    """Number and time limits of attempts, with the names of `Producer`'s options."""

    timeout: float
    attempt_timeout: float | None
    retry_times: int
    retry_codes: frozenset[int]
    retry_another_broker_when_not_store_ok: bool
    send_latency_fault: bool
    start_detector: bool = False

    def check(self) -> None:
        """Raises ClientError if a value is invalid."""
        for name, seconds in (
            ("send_timeout", self.timeout),
            ("attempt_timeout", self.attempt_timeout),
        ):
            if seconds is not None and not 0 < seconds < float("inf"):
                raise ClientError(f"{name} {seconds!r}: a number of seconds is needed")
        if self.retry_times < 0:
            raise ClientError("retry_times must be at least 0")
        if self.start_detector and not self.send_latency_fault:
            raise ClientError("start_detector needs send_latency_fault=True")


@dataclass(slots=True)
class _Sending:
    """One message being sent."""

    request: Outgoing
    queue: MessageQueue | None
    select: Selector | None
    limit: float
    """Seconds for all attempts."""
    deadline: float
    tried: list[str] = field(default_factory=list)
    """Names of the brokers of the attempts that chose one."""
    failure: PyrmqError | None = None
    stored: SendResult | None = None
    """The result of an attempt whose status was not SEND_OK."""

    @property
    def avoid(self) -> str | None:
        """The broker of the last attempt."""
        return self.tried[-1] if self.tried else None


class Delivery:
    """Sends requests. `channel_of` opens the connection to a queue's broker; `channel_now` returns
    it if it is open.

    Topics and queues have the brokers' names.
    """

    def __init__(
        self,
        client: ClientInstance,
        rules: SendRules,
        in_flight: InFlight,
        channel_of: Callable[[MessageQueue, str], Awaitable[Channel]],
        channel_now: Callable[[MessageQueue, str], Channel | None],
    ) -> None:
        self._client = client
        self._rules = rules
        self._in_flight = in_flight
        self._channel_of = channel_of
        self._channel_now = channel_now
        self._queues: dict[str, tuple[TopicRoute, list[MessageQueue]]] = {}
        """Queues of the known routes, by topic."""
        self._faults = FaultTable(trio.current_time) if rules.send_latency_fault else None
        self._chooser = QueueChooser(self._faults)
        self.timeout = rules.timeout
        client.routes.recent.forgotten.append(self._forget)

    def detector(self) -> Detector | None:
        """The detector of unreachable brokers, if the rules want one."""
        if self._faults is None or not self._rules.start_detector:
            return None
        return Detector(self._client, self._faults, lambda: list(self._queues))

    def _forget(self, topics: set[str]) -> None:
        """Keeps only these topics."""
        keep(self._queues, topics)
        self._chooser.forget(topics)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The queues that accept messages; waits for the first broker. Raises TopicNotExistError,
        ConnectError if no name server answers, and ClientError if there is no such queue."""
        try:
            find = partial(self._client.routes.publish, topic)
            route = await self._client.routes.first_broker.once_there(find)
        except ConnectError as e:
            raise ConnectError(f"{e}{self._client.routes.no_answer(e)}") from e
        queues = self._queues_of(topic, route)
        if not queues:
            raise ClientError(f"no broker takes messages of topic {topic}")
        return queues

    def _queues_of(self, topic: str, route: TopicRoute) -> list[MessageQueue]:
        kept = self._queues.get(topic)
        if kept is None or kept[0] is not route:
            kept = self._queues[topic] = route, route.publish_queues(topic)
        return kept[1]

    async def choose(
        self, topic: str, select: Selector | None = None, avoid: str | None = None
    ) -> MessageQueue:
        queues = await self.queues(topic)
        if not select:
            return self._chooser.choose(queues, avoid)
        chosen = select(list(queues))
        check_kind("what `select` chose", chosen, (MessageQueue,), "one of the queues it is given")
        return chosen

    async def deliver(
        self,
        request: Outgoing,
        queue: MessageQueue | None,
        select: Selector | None,
        timeout: float | None,
    ) -> SendResult:
        """Tries until a broker has the message, or attempts or time are used up."""
        rules, size = self._rules, len(request.body)
        limit = rules.timeout if timeout is None else timeout
        left = 0 if queue or select else rules.retry_times
        sending = _Sending(request, queue, select, limit, trio.current_time() + limit)
        if not self._in_flight.try_enter(size):
            await self._wait_for_room(sending)
        try:
            while True:
                tried = len(sending.tried)
                try:
                    result = await self._attempt(sending, left)
                except PyrmqError as e:
                    # A refusal without a broker is the name server's: it stays.
                    refused = isinstance(e, NoPermissionError) and len(sending.tried) == tried
                    if refused or not may_send_again(e, rules.retry_codes):
                        if sending.stored is None:
                            raise
                        return sending.stored
                    sending.failure = e
                    log.info("an attempt to send failed: %s", escape(e))
                else:
                    again = left and rules.retry_another_broker_when_not_store_ok
                    if result.status is SendStatus.SEND_OK or not again:
                        return result
                    sending.stored = result
                if not left or trio.current_time() >= sending.deadline:
                    return self._given_up(sending)
                await self._refresh(sending, left)
                left -= 1
        finally:
            self._in_flight.leave(size)

    async def _wait_for_room(self, sending: _Sending) -> None:
        entered = False
        with trio.move_on_at(sending.deadline):
            await self._in_flight.enter(len(sending.request.body))
            entered = True
        if not entered:
            raise RequestTimeoutError(
                f"not sent: there was no room among the messages in flight for {sending.limit:g} s "
                "(max_in_flight, max_in_flight_bytes)"
            )

    def _given_up(self, sending: _Sending) -> SendResult:
        if sending.stored is not None:
            return sending.stored
        failure = sending.failure
        assert failure is not None
        if not sending.tried:
            raise failure  # no broker is known: it says why
        brokers = ", ".join(dict.fromkeys(sending.tried))
        if trio.current_time() >= sending.deadline:
            raise RequestTimeoutError(
                f"message to {sending.request.topic} not acknowledged in {sending.limit:g} s "
                f"(brokers tried: {brokers}): {failure}"
            ) from failure
        failure.add_note(f"attempts: {len(sending.tried)}, brokers tried: {brokers}")
        raise failure

    def _target_now(self, sending: _Sending) -> MessageQueue | None:
        """The target of the next attempt, if it is known at once."""
        topic = sending.request.topic
        route = self._client.routes.known(topic)
        if route is None or sending.select is not None:
            return None
        queues = self._queues_of(topic, route)
        return self._chooser.choose(queues, sending.avoid) if queues else None

    async def _target(self, sending: _Sending) -> MessageQueue:
        """The same if the route must be requested, or the user chooses."""
        topic, select, avoid = sending.request.topic, sending.select, sending.avoid
        target = None
        with trio.move_on_at(sending.deadline):
            target = await self.choose(topic, select, avoid)
        if target is None:
            raise RequestTimeoutError(
                f"no route of topic {topic} in {sending.limit:g} s{self._client.routes.no_answer()}"
            )
        return target

    async def _attempt(self, sending: _Sending, left: int) -> SendResult:
        """One attempt, with `left` more to follow."""
        request = sending.request
        target = sending.queue or self._target_now(sending) or await self._target(sending)
        broker, began = target.broker_name, trio.current_time()
        sending.tried.append(broker)
        until = self._until(sending, left, began)
        try:
            channel = self._channel_now(target, request.topic)
            now = began
            if channel is None:
                with trio.move_on_at(until):
                    channel = await self._channel_of(target, request.topic)
                now = trio.current_time()
            if channel is None:
                missing = self._client.routes.first_broker.missing
                why = self._client.routes.no_answer() if missing else ""
                raise RequestTimeoutError(f"no connection to broker {broker} in time{why}")
            if request.is_timer:
                with trio.move_on_at(until):
                    await check_timers(self._client, channel, broker)
                now = trio.current_time()
            answer = await channel.call(
                request.code,
                SendRequest(request.header, target.queue_id, broker),
                request.body,
                timeout=max(until - now, 0),
            )
            result = _result(answer, target, request.key)
        except ResponseError:
            if self._faults is not None:
                self._faults.failed(broker, reachable=False)
            raise
        except (ConnectionError, TimeoutError):
            if self._faults is not None:
                # With a detector it is for that one to find out.
                self._faults.failed(broker, reachable=not self._rules.start_detector)
            raise
        if self._faults is not None:
            self._faults.answered(broker, trio.current_time() - began)
        return result

    def _until(self, sending: _Sending, left: int, began: float) -> float:
        """When an attempt has used its part of the time. A large body gets more."""
        if not left:
            return sending.deadline
        part = self._rules.attempt_timeout
        if part is None:
            share = (sending.deadline - began) / (left + 1)
            part = max(share, len(sending.request.body) / SLOW_LINK)
        return min(began + part, sending.deadline)

    async def _refresh(self, sending: _Sending, left: int) -> None:
        """Requests a new route, if it can come soon, because the next attempt needs its time. Not
        after a refusal: many senders would ask the name server at once."""
        failure = sending.failure
        if failure is None or (
            isinstance(failure, ResponseError) and failure.code not in ROUTE_CODES
        ):
            return
        now = trio.current_time()
        try:
            with trio.move_on_at(now + (sending.deadline - now) / (left + 1)):
                await self._client.routes.route(sending.request.topic, fresh=True)
        except PyrmqError as e:
            log.info("routes not refreshed: %s", escape(e))


async def check_timers(client: ClientInstance, channel: Channel, broker: str) -> None:
    """UnsendableMessageError if a broker would deliver a timer message at once, as it is too old;
    ConnectError and RequestTimeoutError if it does not say how old it is."""
    if 0 < await client.version_of(channel) < V5_0_0:
        raise UnsendableMessageError(
            f"broker {broker} ({version_name(channel.version)}) is older than RocketMQ 5.0 and "
            "would deliver the message at once: set delay_time_level instead of delay or deliver_at"
        )


def _result(answer: Command, queue: MessageQueue, key: str) -> SendResult:
    status = _STATUS.get(answer.code)
    if status is None:
        raise ResponseError.of(answer.code, answer.remark or "")
    queue_id, offset = stored_at(answer)
    ext = answer.ext
    return SendResult(
        status,
        key,
        ext.get("msgId", ""),
        queue
        if queue_id == queue.queue_id
        else MessageQueue(queue.topic, queue.broker_name, queue_id),
        offset,
        ext.get("transactionId"),
        ext.get("MSG_REGION", "DefaultRegion"),
        ext.get("TRACE_ON") != "false",
        ext.get("recallHandle"),
    )
