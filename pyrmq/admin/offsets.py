"""Offsets of consumer groups: by time, to the end, of one queue, and those of another group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyrmq.admin import values
from pyrmq.admin.consume_stats import GroupProgress, is_offline, stands_for_route
from pyrmq.admin.groups import Groups
from pyrmq.admin.link import Part
from pyrmq.admin.outcome import Outcomes
from pyrmq.errors import ClientError, ResponseError
from pyrmq.model.codes import RequestCode
from pyrmq.model.message import MessageQueue
from pyrmq.model.names import check_group
from pyrmq.net.client.protocol import Ext

END = -1
"""As a time: behind the last message."""


@dataclass(frozen=True, slots=True)
class QueueReset:
    """What one queue's offset has become, or would become."""

    queue: MessageQueue
    offset: int
    """From where the group goes on."""
    broker_offset: int | None = None
    consumer_offset: int | None = None
    """Where the group was, where that was asked."""
    found: int | None = None
    """The offset of the time."""


@dataclass(frozen=True, slots=True)
class BrokerReset:
    """What became of a group's offsets on one broker."""

    queues: list[QueueReset]
    by_client: bool = False
    """Whether each offset was set by a request of its own, as the broker moves those of groups that
    are online only."""


@dataclass(frozen=True, slots=True)
class ClientOffset:
    """How far one member of a group is in one queue, as it says itself."""

    client_id: str
    queue: MessageQueue
    offset: int


class Offsets(Part):
    """`admin.offsets`."""

    async def search(self, broker: str, queue: MessageQueue, time_ms: int) -> int:
        """The offset of the first message of a time or later; `END`: the next message's."""
        ext: dict[str, str | int | bool] = {"topic": queue.topic, "queueId": queue.queue_id}
        if time_ms == END:
            answer = await self._link.ask(broker, RequestCode.GET_MAX_OFFSET, ext)
        else:
            ext["timestamp"] = time_ms
            answer = await self._link.ask(broker, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, ext)
        return values.number(answer.ext, "offset")

    async def set(self, broker: str, group: str, queue: MessageQueue, offset: int) -> None:
        """Sets what a group has committed. [UPDATE_CONSUMER_OFFSET]"""
        ext: Ext = {
            "consumerGroup": group,
            "topic": queue.topic,
            "queueId": queue.queue_id,
            "commitOffset": offset,
        }
        await self._link.ask(broker, RequestCode.UPDATE_CONSUMER_OFFSET, ext)

    async def reset(
        self,
        group: str,
        topic: str,
        time_ms: int,
        *,
        force: bool = True,
        cluster: str | None = None,
    ) -> Outcomes[BrokerReset]:
        """Moves a group in all queues of a topic to a time, or to the `END`, on one broker of each
        name of its route. `force`: also forward, which brokers that move offsets themselves do
        anyway. `cluster`: the topic whose route stands in for a `%LMQ%` topic's.
        [INVOKE_BROKER_TO_RESET_OFFSET]"""
        check_group(group)

        async def one(address: str) -> BrokerReset:
            ext: Ext = {
                "topic": topic, "group": group, "timestamp": time_ms, "isForce": force,
                "queueId": -1, "offset": -1,
            }  # fmt: skip
            try:
                answer = await self._link.ask_json(
                    address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, ext
                )
            except ResponseError as e:
                if not is_offline(e):
                    raise
                return await self._by_client(address, group, topic, time_ms, force=force)
            rows = values.by_queue(values.table(answer, "offsetTable"))
            return BrokerReset([QueueReset(q, n) for q, n in sorted(rows) if isinstance(n, int)])

        brokers = await self._link.brokers_of(self._route_topic(topic, cluster))
        return await self._link.on_each(brokers, one)

    async def reset_by_client(
        self,
        group: str,
        topic: str,
        time_ms: int,
        *,
        force: bool = True,
        cluster: str | None = None,
    ) -> Outcomes[BrokerReset]:
        """The same for brokers that cannot do it themselves: each queue is searched and set. What
        members of the group hold they commit over it. [resetOffsetByTimestampOld]"""
        check_group(group)
        brokers = await self._link.brokers_of(self._route_topic(topic, cluster))
        return await self._link.on_each(
            brokers, lambda address: self._by_client(address, group, topic, time_ms, force=force)
        )

    async def _by_client(
        self, address: str, group: str, topic: str, time_ms: int, *, force: bool
    ) -> BrokerReset:
        plan = await self._plan(address, group, topic, time_ms, force=force)
        for row in plan:
            if row.offset != row.consumer_offset or force:
                await self.set(address, group, row.queue, row.offset)
        return BrokerReset(plan, by_client=True)

    async def plan(
        self,
        group: str,
        topic: str,
        time_ms: int,
        *,
        force: bool = True,
        cluster: str | None = None,
    ) -> Outcomes[list[QueueReset]]:
        """What `reset` would do, without doing it. ClientError if no broker has the group."""
        check_group(group)
        known = await Groups(self._link).configs(group)
        if known and not known.failed and all(o.value is None for o in known):
            raise ClientError(f"no broker has group {group}")
        brokers = await self._link.brokers_of(self._route_topic(topic, cluster))
        return await self._link.on_each(
            brokers, lambda address: self._plan(address, group, topic, time_ms, force=force)
        )

    async def _plan(
        self, address: str, group: str, topic: str, time_ms: int, *, force: bool
    ) -> list[QueueReset]:
        planned = []
        for queue, broker_offset, consumed in await self._places(address, group, topic):
            found = await self.search(address, queue, time_ms)
            offset = found if force or found <= consumed else consumed
            planned.append(QueueReset(queue, offset, broker_offset, consumed, found))
        return planned

    async def _places(
        self, address: str, group: str, topic: str
    ) -> Sequence[tuple[MessageQueue, int, int]]:
        """The queues of a topic on a broker, where each ends, and where a group is: at its
        beginning for a group that has not consumed the topic."""
        stats = await GroupProgress(self._link).stats_of_broker(address, group, topic)
        rows = [q for q in stats.queues if q.queue.topic == topic]
        if rows:
            found = [(q.queue, q.broker_offset, q.consumer_offset) for q in rows]
        else:
            answer = await self._link.ask_json(
                address, RequestCode.GET_TOPIC_STATS_INFO, {"topic": topic}
            )
            found = [
                (queue, values.number(row, "maxOffset"), values.number(row, "minOffset"))
                for queue, row in values.by_queue(values.table(answer, "offsetTable"))
                if isinstance(row, dict)
            ]
        return sorted(found)

    async def target_of_queue(self, broker: str, topic: str, queue_id: int, *, time_ms: int) -> int:
        """The offset of a time in one queue of a broker (`host:port`)."""
        return await self.search(broker, MessageQueue(topic, "", queue_id), time_ms)

    async def reset_queue(
        self, broker: str, group: str, topic: str, queue_id: int, offset: int
    ) -> None:
        """Moves a group in one queue of a broker (`host:port`): what it has committed, and what its
        members hold. A broker that moves offsets by telling members (before 5.0, or with
        useServerSideResetOffset=false) would move all queues: there this is a ClientError for a
        group that is online. [UPDATE_CONSUMER_OFFSET, INVOKE_BROKER_TO_RESET_OFFSET]"""
        check_group(group)
        moves = await self._moves_offsets(broker)
        if not moves and await self._is_online(broker, group):
            raise ClientError(
                f"broker {broker} cannot move one queue of a group that is online "
                f"(useServerSideResetOffset=false): stop the members of group {group} first"
            )
        await self.set(broker, group, MessageQueue(topic, "", queue_id), offset)
        if not moves:
            return
        ext: Ext = {
            "topic": topic, "group": group, "timestamp": 0, "isForce": False,
            "queueId": queue_id, "offset": offset,
        }  # fmt: skip
        await self._link.ask(broker, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, ext)

    async def _moves_offsets(self, broker: str) -> bool:
        """Whether a broker moves offsets itself."""
        answer = await self._link.ask(broker, RequestCode.GET_BROKER_CONFIG)
        lines = bytes(answer.body).decode(errors="replace").splitlines()
        return "useServerSideResetOffset=true" in (line.strip() for line in lines)

    async def _is_online(self, broker: str, group: str) -> bool:
        try:
            await GroupProgress(self._link).connections(group, broker=broker)
        except ResponseError as e:
            if is_offline(e):
                return False
            raise
        return True

    async def clone(self, source: str, target: str, topic: str) -> list[QueueReset]:
        """Gives a group the offsets that another has in a topic; those that were set."""
        check_group(source)
        check_group(target)
        stats = await GroupProgress(self._link).consume_stats(source, topic)
        for outcome in stats.failed:
            assert outcome.error is not None
            raise outcome.error
        rows = [q for q in stats.queues if q.queue.topic == topic]
        route = await self._link.route(topic)
        done: list[QueueReset] = []
        for row in rows:
            address = route.address_of(row.queue.broker_name)
            if address is None:
                raise ClientError(
                    f"broker {row.queue.broker_name} is not in the route of topic {topic}: "
                    f"{len(done)} of {len(rows)} queues were cloned"
                )
            await self.set(address, target, row.queue, row.consumer_offset)
            done.append(QueueReset(row.queue, row.consumer_offset, row.broker_offset))
        return done

    async def of_clients(self, group: str, topic: str, client_id: str = "") -> list[ClientOffset]:
        """How far the members of a group say that they are, all or the one of that id, by client
        and queue. [INVOKE_BROKER_TO_GET_CONSUMER_STATUS]"""
        brokers = await self._link.brokers_of(topic)
        if not brokers:
            raise ClientError(f"no broker has topic {topic}")
        answer = await self._link.ask_json(
            brokers[0].address,
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
            {"topic": topic, "group": group, "clientAddr": client_id},
        )
        found = []
        clients = values.table(answer, "consumerTable")
        for client in sorted(clients, key=str):
            rows = values.by_queue(values.table(clients, client))
            found += [
                ClientOffset(str(client), queue, offset)
                for queue, offset in sorted(rows)
                if isinstance(offset, int)
            ]
        return found

    @staticmethod
    def _route_topic(topic: str, cluster: str | None) -> str:
        return cluster if cluster and stands_for_route(topic) else topic
