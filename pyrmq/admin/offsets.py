"""Offsets of consumer groups: resets by time, to the end, or of one queue; and copies of another
group's."""

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
"""As a time: the end of the queue."""


@dataclass(frozen=True, slots=True)
class QueueReset:
    """The new offset of one queue, or the planned one."""

    queue: MessageQueue
    offset: int
    """The offset at which the group continues."""
    broker_offset: int | None = None
    consumer_offset: int | None = None
    """The group's previous offset, if it was requested."""
    found: int | None = None
    """The offset of the time."""
    first: int | None = None
    """The first stored offset, if it was requested."""

    @property
    def skipped(self) -> int:
        """Stored messages that the group has not consumed and is not going to get."""
        if self.consumer_offset is None or self.first is None:
            return 0
        return max(self.offset - max(self.consumer_offset, self.first), 0)

    @property
    def repeated(self) -> int:
        """Stored messages that the group has consumed and gets again."""
        if self.consumer_offset is None or self.first is None:
            return 0
        return max(self.consumer_offset - max(self.offset, self.first), 0)


@dataclass(frozen=True, slots=True)
class BrokerReset:
    """The result of a reset on one broker."""

    queues: list[QueueReset]
    by_client: bool = False
    """Whether each offset was set by a request of its own, because the broker moves only groups
    that are connected."""


@dataclass(frozen=True, slots=True)
class ClientOffset:
    """The offset of one member of a group in one queue, as the member reports it."""

    client_id: str
    queue: MessageQueue
    offset: int


class OffsetRequests(Part):
    """The part of `admin.offsets` that moves and copies without a preview of each queue."""

    async def search(self, broker: str, queue: MessageQueue, time_ms: int) -> int:
        """The offset of the first message at or after a time; `END`: the next offset."""
        ext: dict[str, str | int | bool] = {"topic": queue.topic, "queueId": queue.queue_id}
        if time_ms == END:
            answer = await self._link.ask(broker, RequestCode.GET_MAX_OFFSET, ext)
        else:
            ext["timestamp"] = time_ms
            answer = await self._link.ask(broker, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, ext)
        return values.number(answer.ext, "offset")

    async def set(self, broker: str, group: str, queue: MessageQueue, offset: int) -> None:
        """Sets the committed offset of a group. [UPDATE_CONSUMER_OFFSET]"""
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
        name of its route. `force`: also forward, which brokers with their own reset do in any case.
        `cluster`: the topic whose route is used for a `%LMQ%` topic.
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
        """The same for brokers without a reset of their own: each queue is searched and set.
        Members that are connected may overwrite it with their commits.
        [resetOffsetByTimestampOld]"""
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
        """What `reset` would do, without doing it. Raises ClientError if no broker has the
        group."""
        check_group(group)
        await self._check_known(group)
        brokers = await self._link.brokers_of(self._route_topic(topic, cluster))
        return await self._link.on_each(
            brokers, lambda address: self._plan(address, group, topic, time_ms, force=force)
        )

    async def _check_known(self, group: str) -> None:
        known = await Groups(self._link).configs(group)
        if known and not known.failed and all(o.value is None for o in known):
            raise ClientError(f"no broker has group {group}")

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
        """Moves a group in one queue of a broker (`host:port`): its committed offset, and the
        offset of its members. A broker that resets by notifying members (before 5.0, or with
        useServerSideResetOffset=false) would move all queues, so there this raises ClientError if
        the group is connected. [UPDATE_CONSUMER_OFFSET, INVOKE_BROKER_TO_RESET_OFFSET]"""
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
        """Copies the offsets of another group in a topic to a group. Returns the offsets that were
        set."""
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
        """The offsets that the members of a group report, of all members or of the one with that
        id, by client and queue. [INVOKE_BROKER_TO_GET_CONSUMER_STATUS]"""
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
