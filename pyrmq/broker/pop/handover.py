"""A group that popped and pulls now: what is in its retry topics of POP goes to the retry topic
that members who pull are subscribed to, unless they are subscribed to those of POP, too. RocketMQ
leaves it there, for members that are.

It may be switched while messages are out. Those that are not acknowledged come to the retry topics
of POP when their time is over, so these are looked at as long as the group pulls.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import trio

from pyrmq.broker.tables.offset_file import QueueOfGroup
from pyrmq.broker.tables.tables import Tables
from pyrmq.engine import Pops, Store
from pyrmq.errors import PyrmqError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model import pop
from pyrmq.model.names import retry_topic
from pyrmq.model.properties import encode_properties
from pyrmq.model.record import ReceivedMessage, decode_records

log = logging.getLogger(__name__)

PERIOD = 1.0
"""Seconds between two looks."""
WAIT = 0.02
"""Seconds between two looks whether the log is on disk."""
RETRY_TOPIC = "RETRY_TOPIC"
"""The property with the topic that a retried message was sent to."""
Pair = tuple[str, str]


class Handover:
    """`pulling`: topics and groups that an operator has told to pull. `wake` is called when
    messages were stored that somebody may wait for. `busy`: queues of groups that nobody else
    reads."""

    def __init__(
        self,
        store: Store,
        engine: Pops,
        tables: Tables,
        busy: set[QueueOfGroup],
        pulling: Callable[[], Iterable[Pair]],
        wake: Callable[[], None],
    ) -> None:
        self._store = store
        self._engine = engine
        self._tables = tables
        self._busy = busy
        self._pulling = pulling
        self._wake = wake
        self._failure = ""

    async def run(self) -> None:
        """Looks until cancelled. What fails is tried again."""
        while True:
            await trio.sleep(PERIOD)
            try:
                for topic, group in list(self._pulling()):
                    for name, queue_id in self._behind(topic, group):
                        await self._alone(topic, group, name, queue_id)
                self._failure = ""
            except (PyrmqError, OSError) as e:
                if str(e) != self._failure:
                    self._failure = str(e)
                    log.error("messages of POP are not handed over, next try: %s", escape(e))

    def _behind(self, topic: str, group: str) -> Iterator[tuple[str, int]]:
        """Queues of the retry topics of POP with messages, if members would get them elsewhere."""
        topics, offsets = self._tables.topics.table, self._tables.offsets
        target = retry_topic(group)
        if topics.get(target) is None or not self._tables.clients.subscription(group, target):
            return
        for name in (pop.retry_topic_v1(topic, group), pop.retry_topic_v2(topic, group)):
            if self._tables.clients.subscription(group, name):
                continue  # members pull it, as pyrmq's and (the first name) Java's consumers do
            known = topics.get(name)
            for queue_id in range(known.read_queue_nums if known is not None else 0):
                done = offsets.query(name, group, queue_id) or 0
                if done < self._store.queue_range(name, queue_id)[1]:
                    yield name, queue_id

    async def _alone(self, topic: str, group: str, name: str, queue_id: int) -> None:
        """Hands a queue over, if no pop reads it now; pops pass it by meanwhile."""
        key = name, group, queue_id
        if key in self._busy:
            return
        self._busy.add(key)
        try:
            await self._hand_over(topic, group, name, queue_id)
        finally:
            self._busy.discard(key)

    async def _hand_over(self, topic: str, group: str, name: str, queue_id: int) -> None:
        """Stores what there is again, then commits: a crash in between repeats 32 messages at
        most."""
        offsets = self._tables.offsets
        start = offsets.query(name, group, queue_id) or 0
        read = partial(self._engine.read, name, queue_id, start, pop.MAX_POP)
        popped = await trio.to_thread.run_sync(read)
        assert popped is not None
        messages = decode_records(b"".join(bytes(s) for s in popped.slices), inflate_body=False)
        await trio.to_thread.run_sync(self._store_again, messages, topic, group)
        end = int(self._store.stats()["maxPhyOffset"])
        while messages and self._store.flushed() < end:  # noqa: ASYNC110 - the disk tells nobody
            await trio.sleep(WAIT)
        offsets.commit(name, group, queue_id, popped.next_offset)
        if messages:
            log.info(
                "%d messages of %s go to the retry topic of group %s, which pulls",
                len(messages),
                escape(name),
                escape(group),
                extra=about(topic=name, group=group),
            )
            self._wake()

    def _store_again(self, messages: list[ReceivedMessage], topic: str, group: str) -> None:
        """Whatever they wait for is over: they are given at once."""
        target = retry_topic(group)
        for message in messages:
            properties = {RETRY_TOPIC: topic} | message.properties
            properties.pop(pop.POP_CK, None)
            self._store.put(
                target,
                0,
                message.raw_body,
                encode_properties(properties),
                flag=message.flag,
                born_timestamp=message.born_timestamp,
                born_host=message.born_host,
                reconsume_times=message.reconsume_times,
            )
