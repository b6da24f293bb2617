"""A client's part in a group: its queues, what keeps them, and how it leaves. Push and pull
consumers are made of it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import trio

from pyrmq.client.brokers import Registration
from pyrmq.client.consumer.ask_brokers import check_expressions
from pyrmq.client.consumer.assignments import AssignmentEvents, Assignments
from pyrmq.client.consumer.consume_service import Caller
from pyrmq.client.consumer.held_queues import HeldEvents, HeldQueues
from pyrmq.client.consumer.local_offsets import LocalOffsets
from pyrmq.client.consumer.offsets import BrokerOffsets, ConsumeFrom, StartRule
from pyrmq.client.consumer.pop.pop_options import PopOptions
from pyrmq.client.consumer.pop.pop_queues import PopEvents, PopQueues
from pyrmq.client.consumer.pop.popped import Popped
from pyrmq.client.consumer.process_queue import Limits, ProcessQueue
from pyrmq.client.consumer.pull_loop import PullLoop, PullOptions
from pyrmq.client.consumer.queue_locks import QueueLocks
from pyrmq.client.consumer.rebalance import Rebalance
from pyrmq.client.consumer.reports import Reports
from pyrmq.client.consumer.requests import ConsumerRequests
from pyrmq.client.consumer.running_info import Statistics, client_properties, running_info
from pyrmq.client.consumer.sharing import Sharing
from pyrmq.client.instance import API_TIMEOUT, ClientInstance
from pyrmq.client.namespaces import Namespace
from pyrmq.errors import ClientError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.message import ReceivedMessage
from pyrmq.model.subscription import Subscription
from pyrmq.net.tasks import Tasks

if TYPE_CHECKING:
    from pyrmq.client.telemetry import ClientTelemetry
    from pyrmq.client.trace.tracer import Tracer

log = logging.getLogger(__name__)

START_WAIT = 3.0
"""Seconds that entering waits for brokers that do not say where queues begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberOptions:
    """How a member works; intervals in seconds. `sharing` None: the user says which queues it has.
    `ordered`: its queues are locked. `automatic`: offsets are written as messages are consumed.
    `seeks`: a queue whose offset is gone goes on elsewhere without a word to its store. `pops`: how
    queues are popped, if any are; `switches`: a broker may have queues popped and pulled by turns.
    `tracer` is entered and left with it."""

    limits: Limits
    pulls: PullOptions
    sharing: Sharing | None
    rebalance_interval: float
    persist_interval: float | None
    ordered: bool = False
    automatic: bool = True
    seeks: bool = False
    pops: PopOptions | None = None
    switches: bool = False
    tracer: Tracer | None = None
    telemetry: ClientTelemetry | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberEvents:
    """What a member calls: `deliver` with the messages of each queue in order, with the topics that
    users know, and `taken` with each queue that it takes; `popping` is the same for queues that are
    popped."""

    deliver: Callable[[ProcessQueue, list[ReceivedMessage]], None]
    taken: Callable[[ProcessQueue], None]
    popping: PopEvents | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What brokers and operators are told of a consumer. `kind`: CONSUME_PASSIVELY or
    CONSUME_ACTIVELY; `options`: its options under the names that RocketMQ's tools show; `call`
    calls its listener, if it has one."""

    kind: str
    options: Mapping[str, object]
    consume_from: ConsumeFrom = ConsumeFrom.LAST_OFFSET
    message_model: str = "CLUSTERING"
    orderly: bool = False
    call: Caller | None = None


class Member:
    """Group and `subscriptions`, which may change, are those of the broker."""

    def __init__(
        self,
        client: ClientInstance,
        group: str,
        names: Namespace,
        subscriptions: dict[str, Subscription],
        store: BrokerOffsets | LocalOffsets,
        rule: StartRule,
        events: MemberEvents,
        profile: Profile,
        options: MemberOptions,
    ) -> None:
        self.client = client
        self.group = group
        self.store = store
        self.tasks = Tasks()
        self.statistics = Statistics()
        self.started = 0
        """When it was entered, ms since 1970."""
        self.locks = QueueLocks(client, group) if options.ordered else None
        self._names = names
        self._subs = subscriptions
        self._options = options
        self._deliver = events.deliver
        self._profile = profile
        self._rule = rule
        heard = names.name or options.telemetry is not None
        reports = Reports(group)
        pulls = PullLoop(
            client,
            group,
            subscriptions,
            reports,
            options.pulls,
            self.statistics,
            self._named if heard else events.deliver,
            self._moved,
        )
        self.held = HeldQueues(
            self.tasks,
            store,
            rule,
            reports,
            pulls.run,
            limits=options.limits,
            events=HeldEvents(
                taken=events.taken, wanted=self._share_again if options.sharing else None
            ),
            locks=self.locks,
            automatic=options.automatic,
        )
        self.pops: PopQueues | None = None
        if options.pops is not None and events.popping is not None:
            self.pops = PopQueues(
                client,
                group,
                subscriptions,
                self.tasks,
                reports,
                self.statistics,
                store,
                rule,
                options.pops,
                self._named_popping(events.popping) if heard else events.popping,
            )
        client.consumers[group] = self._heartbeat_data
        ConsumerRequests(
            client,
            group,
            names,
            self.held,
            self._running_info,
            profile.call,
            orderly=profile.orderly,
        )
        self._leaving = AsyncExitStack()
        self._registration = Registration(client)
        self._sharing: dict[str, trio.CancelScope] = {}
        self._rebalance: Rebalance | None = None
        if options.sharing is not None:
            assignments = Assignments(
                client,
                group,
                subscriptions,
                self.tasks,
                self.held,
                self.pops,
                AssignmentEvents(share=self.share, unshare=self.unshare),
                switches=options.switches,
            )
            self._rebalance = Rebalance(
                client,
                self.held,
                reports,
                options.sharing,
                assignments.assign,
                interval=options.rebalance_interval,
                on_route=self._registration.look,
            )

    async def enter(self) -> None:
        """The client is entered, brokers are asked about expressions, and topics are shared and
        pulled from now on. Raises what brokers say of an `Sql` that they refuse."""
        self.started = time.time_ns() // 1_000_000
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.client)
            await check_expressions(self.client, self.group, self._subs.values())
            if self._options.tracer is not None:
                await stack.enter_async_context(self._options.tracer)
            until = await self._start()
            self._leaving = stack.pop_all()
        try:
            await self.begun(self._subs, until)
        except BaseException as e:
            await self.leave(type(e), e, e.__traceback__)
            raise

    def check_entered(self) -> None:
        """Raises ClientError outside of `async with`."""
        if not self.tasks.running:
            raise ClientError("not connected: use the consumer inside of its `async with`")

    async def _start(self) -> float:
        """Until when entering may wait."""
        if isinstance(self.store, LocalOffsets):
            await self.store.open()
        try:
            until = await self.join(self._subs)
        except BaseException:
            if isinstance(self.store, LocalOffsets):
                self.store.close()
            raise
        await self.tasks.__aenter__()
        for topic in self._subs:
            self.share(topic)
        self.tasks.start_soon(self._registration.run)
        if self._options.persist_interval is not None:
            self.tasks.start_soon(self._persist, self._options.persist_interval)
        if self.locks is not None:
            self.tasks.start_soon(self.locks.run, lambda: list(self.held.table.values()))
        return until

    async def join(self, topics: Iterable[str]) -> float:
        """Before brokers hear of subscriptions: whether the group has offsets in the topics.
        Returns the time until which `begun` may wait."""
        until = trio.current_time() + START_WAIT
        if self._rebalance is None:
            return until
        with trio.move_on_at(until) as limit:
            async with trio.open_nursery() as nursery:
                for topic in topics:
                    nursery.start_soon(self._rule.join, topic)
        if limit.cancelled_caught:
            log.warning(
                "brokers do not say whether group %s has offsets in its topics: where it has none "
                "it starts as a new group",
                escape(self.group),
                extra=about(group=self.group),
            )
        return until

    async def begun(self, topics: Iterable[str], until: float) -> None:
        """Returns when it is known where this member's queues begin, as far as messages could be
        missed otherwise, or when time is up. What is sent to the topics later will come."""
        waiting = [topic for topic in topics if self._rule.may_miss(topic)]
        if self._rebalance is not None:
            with trio.move_on_at(until):
                for topic in waiting:
                    await self._rebalance.shared(topic)
                    await self.held.begun(topic)
                    if self.pops is not None:
                        await self.pops.begun(topic)
        for topic in waiting:
            self._rule.entered(topic)

    async def placed(self, topics: Iterable[str]) -> None:
        """Returns when it is known where the queues of topics begin that the user has chosen, as
        far as messages could be missed otherwise, or after a while: a broker may be away."""
        with trio.move_on_after(START_WAIT):
            for topic in topics:
                if self._rule.may_miss(topic):
                    await self.held.begun(topic)

    def share(self, topic: str) -> None:
        """A topic is shared among the group from now on."""
        if self._rebalance is not None:
            scope = self._sharing[topic] = trio.CancelScope()
            self.tasks.start_soon(self._share, self._rebalance, topic, scope)

    def unshare(self, topic: str) -> None:
        """A topic is not shared any longer: this member gives its queues up."""
        if topic in self._sharing:
            self._sharing.pop(topic).cancel()
        self._rule.left(topic)
        self.held.assign(topic, ())
        if self.pops is not None:
            self.pops.stop(topic)

    def _share_again(self) -> None:
        """A queue is free that is to be taken again."""
        if self._rebalance is not None:
            self._rebalance.wake()

    async def _share(self, rebalance: Rebalance, topic: str, scope: trio.CancelScope) -> None:
        with scope:
            await rebalance.run(topic)
        if topic not in self._sharing:  # it may have been about to take some
            self.held.assign(topic, ())
            if self.pops is not None:
                self.pops.stop(topic)

    async def _persist(self, interval: float) -> None:
        while True:
            await trio.sleep(interval)
            self.tasks.start_soon(self.held.persist)

    def _named(self, process: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        self._came(messages)
        self._deliver(process, messages)

    def _named_popping(self, events: PopEvents) -> PopEvents:
        def deliver(popped: Popped, messages: list[ReceivedMessage]) -> None:
            self._came(messages)
            events.deliver(popped, messages)

        return replace(events, deliver=deliver)

    def _came(self, messages: list[ReceivedMessage]) -> None:
        for message in messages:
            message.topic = self._names.shown(message.topic)
        if self._options.telemetry is not None:
            self._options.telemetry.arrived(messages)

    def cached(self) -> list[tuple[str, int, int]]:
        """Topic, messages and bytes that wait to be consumed, of each queue; for any thread."""
        found = [
            (process.queue.topic, process.waiting, process.waiting_bytes)
            for process in list(self.held.table.values())
        ]
        if self.pops is not None:
            found += self.pops.cached()
        return [(self._names.shown(topic), count, size) for topic, count, size in found]

    def _moved(self, process: ProcessQueue, offset: int) -> None:
        """The broker has no such offset: the queue is dropped and taken over anew from where the
        broker says. (It may be lower: a broker can lose the end of its log in a power cut.)"""
        log.warning(
            "offset of %s moved from %d to %d",
            escape(process.queue),
            process.next_offset,
            offset,
            extra=about(queue=process.queue, group=self.group),
        )
        if self._options.seeks:
            process.seek(offset)
        else:
            process.reset(offset)

    async def leave(self, *error: Any) -> None:
        """All tasks end. Whatever fails there, offsets are written; group and client are left."""
        try:
            await self._leave_group(*error)
        finally:
            await self._leaving.__aexit__(*error)

    def stop(self) -> None:
        """Nothing is pulled or popped any more."""
        self.held.stop()
        if self.pops is not None:
            self.pops.stop()

    async def _leave_group(self, *error: object) -> None:
        self.stop()
        try:
            if self.pops is not None:
                with trio.CancelScope(shield=True, deadline=trio.current_time() + API_TIMEOUT):
                    await self.pops.acks.drain()
        finally:
            await self._end_tasks(*error)

    async def _end_tasks(self, *error: object) -> None:
        try:
            await self.tasks.__aexit__(*error)
        finally:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 2 * API_TIMEOUT):
                try:
                    await self.held.release()
                finally:
                    if isinstance(self.store, LocalOffsets):
                        self.store.close()
                    await self.client.unregister(consumerGroup=self.group)

    def _heartbeat_data(self) -> dict[str, Any]:
        shared = self._subs.values() if self._options.sharing else ()
        return {
            "consumeFromWhere": self._profile.consume_from.value,
            "consumeType": self._profile.kind,
            "groupName": self.group,
            "messageModel": self._profile.message_model,
            "subscriptionDataSet": [s.to_json() for s in shared],
            "unitMode": False,
        }

    def _running_info(self, stacks: bool) -> dict[str, Any]:
        """How it runs, for operators."""
        profile = self._profile
        own = client_properties(
            self.client, self.group, profile.kind, orderly=profile.orderly, started=self.started
        )
        return running_info(
            {**profile.options, **own},
            self._subs.values(),
            self.held.table.values(),
            () if self.pops is None else self.pops.table.values(),
            self.statistics,
            stacks=stacks,
        )
