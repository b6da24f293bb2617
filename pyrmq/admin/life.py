"""The whole life of a message in one answer: who sent it, where it is stored, delays, transaction,
retries, dead letters, and who consumed it; and what cannot be known.

All searches are bounded: queries of the brokers' index by the message's unique id, and one question
for each consumer group.
"""

from __future__ import annotations

from contextlib import suppress

import trio

from pyrmq.admin import life_facts as facts
from pyrmq.admin.brokers import Brokers
from pyrmq.admin.life_facts import What
from pyrmq.admin.life_groups import CONSUMED, MOST_TOPICS, GroupLives, Life
from pyrmq.admin.link import AT_ONCE
from pyrmq.admin.messages import UNIQUE_COUNT
from pyrmq.admin.outcome import Outcome
from pyrmq.admin.runtime_info import whole
from pyrmq.admin.topics import Topics
from pyrmq.admin.traces import MAX_TRACES
from pyrmq.admin.txn.finder import TRANSACTION_MASK, State, Transaction, TransactionFinder
from pyrmq.admin.txn.link import BrokerLink
from pyrmq.engine import delay_levels
from pyrmq.errors import ClientError, NotFoundError, PyrmqError, TopicNotExistError
from pyrmq.model.names import (
    CHECK_MAX_TOPIC,
    HALF_TOPIC,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TRACE_TOPIC,
    is_system_topic,
)
from pyrmq.model.properties import PRODUCER_GROUP, REAL_TOPIC, UNIQ_KEY
from pyrmq.model.record import ReceivedMessage
from pyrmq.net.address import parse_address

MOST_TRACES = 256
OPS_PATIENCE = 30.0
"""Seconds for reading op records of a transaction that is not committed."""
LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
"""messageDelayLevel of RocketMQ."""
_WAITING = (SCHEDULE_TOPIC, TIMER_TOPIC)


class Lives(GroupLives):
    """`admin.lives`."""

    async def of_key(
        self, key: str, *, topic: str | None = None, limit: int = 8, trace_topic: str = TRACE_TOPIC
    ) -> list[Life]:
        """The lives of the messages with a key, at most `limit`, by store time: also of those that
        wait for their time or their transaction. Without `topic` all topics are searched. Raises
        as `of_id`."""
        life = Life(key, topic, trace_topic)
        found = await self._search(life, key, topic, unique=False)
        ids = dict.fromkeys((m.topic, m.msg_id) for m in found)
        for name in (*_WAITING, HALF_TOPIC, CHECK_MAX_TOPIC):
            for message in await self._query(life, name, key, unique=False):
                target = message.properties.get(REAL_TOPIC, "")
                if topic in (None, target) and all(message.msg_id != known for _, known in ids):
                    ids[target, message.msg_id] = None
        if not ids:
            self._raise(life, f"no message has the key {key}")
        lives = [
            await self.of_id(message_id, topic=of, trace_topic=trace_topic)
            for of, message_id in list(ids)[:limit]
        ]
        if len(ids) > limit:
            lives[-1].unknown.append(f"{len(ids) - limit} more messages have the key {key}")
        for one in lives:
            one.fail(life.failed)
        return lives

    async def of_id(
        self, message_id: str, *, topic: str | None = None, trace_topic: str = TRACE_TOPIC
    ) -> Life:
        """The life of the message with a unique id or an offset id. Without `topic` it is looked
        for by its trace, by its offset id, and then in all topics. Raises NotFoundError if nothing
        is known of it, ClientError if there are too many topics to search, and the error of a
        broker that did not answer if the others know nothing."""
        life = Life(message_id, topic, trace_topic)
        copies: list[ReceivedMessage] = []
        place = await self._at_offset(message_id)
        if place is not None:
            copies = [place]
            life.topic = place.topic
            life.message_id = message_id = place.properties.get(UNIQ_KEY, message_id)
        await self._traces(life, message_id)
        home, waiting, halves = await self._copies(life, message_id, copies)
        settled = await self._transaction(life, message_id, halves, home)
        for n, message in enumerate(home):
            life.facts += facts.stored(message, not n)
        groups = await self._groups(life)
        back = await self._brought_back(life, message_id, groups)
        if known := [*home, *halves, *waiting, *(m for _, m in back)]:
            life.facts.append(facts.sent(known[0]))
        for group, message in back:
            life.facts.append(facts.brought_back(message, group))
        await self._waits(life, waiting, [*home, *(m for _, m in back)])
        await self._reached(life, groups, home, back)
        await self._limits(life, message_id, home, settled)
        if not life.facts:
            gone = await self._gone(life, message_id)
            self._raise(life, f"nothing is known of {message_id}: {gone}; there is no trace of it")
        life.facts = facts.in_order(life.facts)
        return life

    async def _waits(
        self, life: Life, waiting: list[ReceivedMessage], there: list[ReceivedMessage]
    ) -> None:
        """The copies that wait for their time: those that were not delivered since."""
        seen = {(m.topic, m.reconsume_times) for m in there}
        open_: dict[tuple[str, int], ReceivedMessage] = {}
        for message in waiting:  # a timer message is stored again when it rolls
            at = (message.properties.get(REAL_TOPIC, ""), message.reconsume_times)
            if at not in seen:
                open_[at] = message
        for message in open_.values():
            life.facts.append(facts.waiting(message, await self._delays(message)))

    async def _delays(self, message: ReceivedMessage) -> list[int]:
        """The delays of the levels of its broker, ms; those of RocketMQ if it does not say."""
        try:
            address = await self._link.master_of(message.broker_name)
            config = await Brokers(self._link).config_of(address)
            return delay_levels(config.get("messageDelayLevel", LEVELS))
        except (PyrmqError, ValueError):
            return delay_levels(LEVELS)

    @staticmethod
    def _raise(life: Life, text: str) -> None:
        error = life.failed[0].error if life.failed else None
        if error is not None:
            error.hint = f"{text} where brokers answered"
            raise error
        raise NotFoundError(text)

    # Where it is

    async def _at_offset(self, message_id: str) -> ReceivedMessage | None:
        """The message with an offset id; None if it is not one."""
        try:
            return await self._messages.by_offset_id(message_id)
        except PyrmqError:
            return None

    async def _search(
        self, life: Life, key: str, topic: str | None, *, unique: bool = True
    ) -> list[ReceivedMessage]:
        """The messages of one topic, or of the first topics that have any: ordinary ones, else
        retry topics and dead letters."""
        if topic is not None:
            return await self._query(life, topic, key, unique=unique)
        system = {TRACE_TOPIC, life.trace_topic}
        with suppress(PyrmqError):  # those of brokers and clusters, which have no messages
            system |= await Topics(self._link).system()
        names = sorted(
            t for t in await self._link.topics() if t not in system and not is_system_topic(t)
        )
        if len(names) > MOST_TOPICS:
            raise ClientError(
                f"there are {len(names)} topics, and at most {MOST_TOPICS} are searched: say which "
                "topic it is"
            )
        ordinary = [t for t in names if not facts.is_brought_back(t)]
        found: list[ReceivedMessage] = []
        done = 0

        async def look(name: str) -> None:
            nonlocal done
            found.extend(await self._query(life, name, key, unique=unique))
            self._link.progress("topics", done := done + 1, len(names))

        await self._each(ordinary, look)
        if not found:
            await self._each([t for t in names if facts.is_brought_back(t)], look)
        return sorted(found, key=lambda m: (m.store_timestamp, m.commit_log_offset))

    async def _copies(
        self, life: Life, message_id: str, copies: list[ReceivedMessage]
    ) -> tuple[list[ReceivedMessage], list[ReceivedMessage], list[ReceivedMessage]]:
        """The copies in its topic, those that wait, and the halves."""
        waiting: list[ReceivedMessage] = []
        halves: list[ReceivedMessage] = []
        for name in _WAITING:
            waiting += await self._query(life, name, message_id)
        for name in (HALF_TOPIC, CHECK_MAX_TOPIC):
            halves += await self._query(life, name, message_id)
        for message in [*waiting, *halves]:
            target = message.properties.get(REAL_TOPIC, "")
            if (life.topic is None or is_system_topic(life.topic)) and target:
                life.topic = target
        if life.topic is not None and facts.is_brought_back(life.topic):
            back = copies or await self._query(life, life.topic, message_id)
            life.topic = _origin(back) or life.topic
        found = await self._search(life, message_id, life.topic)
        if life.topic is None and found:
            life.topic = _origin(found) or found[0].topic
        if len(found) >= UNIQUE_COUNT:
            life.unknown.append(f"more copies: only {UNIQUE_COUNT} are asked for")
        known = {m.offset_msg_id: m for m in [*copies, *found] if m.topic == life.topic}
        home = sorted(known.values(), key=lambda m: (m.store_timestamp, m.commit_log_offset))
        return home, waiting, halves

    async def _traces(self, life: Life, message_id: str) -> None:
        trace_topic = life.trace_topic
        try:
            found = await self._messages.traces(message_id, topic=trace_topic, limit=MOST_TRACES)
        except (NotFoundError, TopicNotExistError) as e:
            why = "has no record of it" if isinstance(e, NotFoundError) else "does not exist"
            life.unknown.append(
                f"which clients consumed it, when and with which result: topic {trace_topic} {why} "
                "(clients trace with trace=True, brokers keep it with traceTopicEnable=true)"
            )
            return
        except PyrmqError as e:
            life.fail([Outcome("", error=e)])
            life.unknown.append(f"what its trace says: {e}")
            return
        life.fail(found.failed)
        life.facts += [facts.traced(t) for t in found]
        if len(found) >= MAX_TRACES:
            life.unknown.append(
                f"what more its trace says: only {MAX_TRACES} records are read; clients write few, "
                "so somebody may have made them up"
            )
        topics = [t.topic for t in found if t.topic]
        if life.topic is None and topics:
            life.topic = topics[0]

    # Transactions

    async def _transaction(
        self,
        life: Life,
        message_id: str,
        halves: list[ReceivedMessage],
        home: list[ReceivedMessage],
    ) -> Transaction | None:
        """Its transaction, if it is of one."""
        marked = [*halves, *(m for m in home if m.sys_flag & TRANSACTION_MASK)]
        if not marked:
            return None
        address = marked[0].store_host
        finder = TransactionFinder(
            BrokerLink(self._link.channels, parse_address(address, "broker address"))
        )
        try:
            found = await finder.find(message_id, ops=False)
            if found and found[0].state is not State.COMMITTED:
                with trio.move_on_after(OPS_PATIENCE) as scope:
                    found = await finder.find(message_id)
                if scope.cancelled_caught:
                    life.unknown.append(
                        "whether its transaction is settled: there are too many op records to read "
                        f"(pyrmq admin txn show {message_id})"
                    )
                    return None
        except PyrmqError as e:
            life.fail([Outcome(address, error=e)])
            return None
        for t in found:
            life.facts += facts.transaction(t)
        return found[0] if found else None

    # What cannot be known

    async def _limits(
        self,
        life: Life,
        message_id: str,
        home: list[ReceivedMessage],
        settled: Transaction | None,
    ) -> None:
        named = any(f.what is What.SENT and f.source == facts.TRACE for f in life.facts)
        marked = any(PRODUCER_GROUP in m.properties for m in home) or settled is not None
        if home and not named and not marked:
            life.unknown.append(
                "its producer group: messages do not have it, unless they are transactional; "
                "its trace would"
            )
        if home and UNIQ_KEY not in home[0].properties:
            life.unknown.append("its retries and dead letters: it has no unique id to find them by")
        traced = {f.detail.get("group") for f in life.facts if f.what in CONSUMED}
        untraced = dict.fromkeys(
            f.detail["group"]
            for f in life.facts
            if f.what is What.OFFSET
            and f.detail["beyond"]
            and f.detail["group"] not in traced
            and not f.detail.get("cameBack")
            and "retry" not in f.detail
        )
        if untraced:
            life.unknown.append(
                f"whether {', '.join(untraced)} consumed it, filtered it out or skipped it, and "
                "which member: offsets do not say, and no member of them traced it"
            )
        if not home and not any(f.what is What.WAITS for f in life.facts):
            life.unknown.append(f"the message itself: {await self._gone(life, message_id)}")

    async def _gone(self, life: Life, message_id: str) -> str:
        """Why the message itself may be missing."""
        made = facts.made_at(message_id)
        text = "no broker has it under this id"
        if made:
            text += f", which was made at {facts.when(made)}"
        begins = []
        try:
            replicas = await (
                self._link.brokers_of(life.topic) if life.topic else self._link.one_of_each()
            )
        except PyrmqError:
            return text
        for replica in replicas[:AT_ONCE]:
            try:
                info = await Brokers(self._link).runtime_of(replica.address)
            except PyrmqError:
                continue
            if (begin := whole(info, "earliestMessageTimeStamp")) > 0:
                begins.append(f"{replica.broker_name} has messages from {facts.when(begin)} on")
                if made and made < begin:
                    begins[-1] += ", so retention may have deleted it"
        return "; ".join([text, *begins])


def _origin(messages: list[ReceivedMessage]) -> str | None:
    """The topic that a retried message or a dead letter came from."""
    for message in messages:
        if facts.is_brought_back(message.topic):
            return message.properties.get("RETRY_TOPIC")
    return None
