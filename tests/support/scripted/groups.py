"""Brokers on streams in memory that know consumer groups: queues, members, offsets, locks.

    cluster = StreamCluster("broker-a", kind=GroupBroker)
    cluster["broker-a"].put(b"body", queue=1)

Pulls at the end of a queue wait for `put`, or for their time to be over. `seen` has every request
with the client that made it, once that client has said who it is.
"""

from __future__ import annotations

import contextlib
import json
from collections import defaultdict
from dataclasses import replace
from typing import cast

import trio

from tests.support.records import Record, encode_properties, encode_record
from tests.support.scripted.lists import BORN, EMPTY
from tests.support.scripted.streams import HEART_BEAT, SEND, Connection, StreamBroker, stored
from tests.support.wire import FLAG_ONEWAY, Command

PULL, QUERY_OFFSET, UPDATE_OFFSET = 11, 14, 15
AT_TIME, MAX_OFFSET, MIN_OFFSET = 29, 30, 31
UNREGISTER, SEND_BACK, MEMBERS, IDS_CHANGED, LOCK, UNLOCK = 35, 36, 38, 40, 41, 42
LITE_PULL = 361
LOCK_LIFETIME = 60.0
Place = tuple[str, int]
"""Topic and queue id."""


class GroupBroker(StreamBroker):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.queues: dict[Place, list[Record]] = defaultdict(list)
        self.first: dict[Place, int] = defaultdict(int)
        """Offsets below this one are deleted."""
        self.offsets: dict[tuple[str, str, int], int] = {}
        """By group, topic and queue."""
        self.members: dict[str, dict[int, tuple[Connection, str]]] = defaultdict(dict)
        """By group and connection: who registered on it."""
        self.locks: dict[tuple[str, str, int], str] = {}
        self.locked_at: dict[tuple[str, str, int], float] = {}
        self.cut: set[str] = set()
        """Clients whose requests get lost."""
        self.sent_back: list[Command] = []
        self.seen: list[tuple[str, Command]] = []
        """Client id (empty before its first heartbeat) and request."""
        self.stalled = False
        """Takes requests and says nothing."""
        self._who: dict[int, str] = {}
        self._arrived: dict[Place, trio.Event] = defaultdict(trio.Event)

    def put(
        self,
        body: bytes,
        topic: str = "T",
        queue: int = 0,
        times: int = 0,
        sys_flag: int = 0,
        **properties: str,
    ) -> Record:
        """Stores a message and answers the pulls that wait for it."""
        records = self.queues[topic, queue]
        record = replace(
            EMPTY,
            topic=topic,
            queue_id=queue,
            queue_offset=len(records),
            physical_offset=1000 * queue + len(records) * 100,
            store_timestamp=BORN + len(records),
            reconsume_times=times,
            sys_flag=sys_flag,
            body=body,
            properties_raw=encode_properties(properties).encode(),
        )
        records.append(replace(record, size=len(encode_record(record))))
        self.wake((topic, queue))
        return records[-1]

    def retime(self, timestamp: int, topic: str = "T", queue: int = 0) -> None:
        """The last message of a queue was stored at this time, ms since 1970."""
        records = self.queues[topic, queue]
        records[-1] = replace(records[-1], store_timestamp=timestamp)

    def wake(self, place: Place) -> None:
        """The pulls that wait at the end of a queue are looked at again."""
        self._arrived.pop(place, trio.Event()).set()

    def by(self, client: str, *codes: int) -> list[Command]:
        """What a client asked, of these codes."""
        return [c for who, c in self.seen if who == client and c.code in codes]

    async def restart(self) -> None:
        """Loses connections, members and locks; offsets stay as they were written."""
        self.members.clear()
        self.locks.clear()
        self.locked_at.clear()
        for connection in self.connections:
            await connection.close()

    async def expire(self, client: str) -> None:
        """Forgets a client that was not heard of for too long."""
        for group, members in self.members.items():
            gone = [key for key, (_, who) in members.items() if who == client]
            for key in gone:
                del members[key]
            if gone:
                await self.notify(group)

    async def notify(self, group: str) -> None:
        """NOTIFY_CONSUMER_IDS_CHANGED to all members."""
        fields = {"consumerGroup": group}
        for connection, _ in list(self.members[group].values()):
            with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await connection.send(
                    Command(IDS_CHANGED, dict(fields), opaque=1, flag=FLAG_ONEWAY)
                )

    def gone(self, connection: Connection) -> None:
        for members in self.members.values():
            members.pop(id(connection), None)

    async def handle(self, connection: Connection, command: Command) -> bool:
        if command.code == HEART_BEAT:
            self._who[id(connection)] = json.loads(command.body)["clientID"]
        self.seen.append((self._who.get(id(connection), ""), command))
        if self.stalled or self._who.get(id(connection)) in self.cut:
            return True
        if command.code not in self.change:
            if command.code == HEART_BEAT:
                await self._heartbeat(connection, command)
            elif command.code == UNREGISTER:
                group = command.ext.get("consumerGroup", "")
                if self.members[group].pop(id(connection), None):
                    await self.notify(group)
            elif command.code in (PULL, LITE_PULL):
                assert self.nursery is not None
                self.nursery.start_soon(self._answer_pull, connection, command)
                return True
        return await super().handle(connection, command)

    async def _heartbeat(self, connection: Connection, command: Command) -> None:
        data = json.loads(command.body)
        for consumer in data["consumerDataSet"]:
            group = consumer["groupName"]
            new = id(connection) not in self.members[group]
            self.members[group][id(connection)] = connection, data["clientID"]
            if new:
                await self.notify(group)

    def usual(self, c: Command) -> Command:
        ext = c.ext
        group = ext.get("consumerGroup", "")
        if c.code == MEMBERS:
            ids = [who for _, who in self.members[group].values()]
            body = json.dumps({"consumerIdList": ids}).encode()
            return c.reply(0, {}, body) if ids else c.reply(1)
        if c.code in (LOCK, UNLOCK):
            return self._change_locks(c)
        if c.code == SEND_BACK:
            self.sent_back.append(c)
            return c.reply(0)
        if c.code == SEND:
            return stored(c)
        if c.code not in (QUERY_OFFSET, UPDATE_OFFSET, MAX_OFFSET, MIN_OFFSET, AT_TIME):
            return c.reply(0)
        place = ext["topic"], int(ext["queueId"])
        if c.code == QUERY_OFFSET:
            found = self.offsets.get((group, *place))
            return c.reply(22) if found is None else c.reply(0, {"offset": str(found)})
        if c.code == UPDATE_OFFSET:
            self.offsets[(group, *place)] = int(ext["commitOffset"])
            return c.reply(0)
        records = self.queues[place]
        if c.code == AT_TIME:
            time = int(ext["timestamp"])
            after = [r.queue_offset for r in records if r.store_timestamp >= time]
            return c.reply(0, {"offset": str(after[0] if after else len(records))})
        at = len(records) if c.code == MAX_OFFSET else self.first[place]
        return c.reply(0, {"offset": str(at)})

    def _change_locks(self, c: Command) -> Command:
        data = json.loads(c.body)
        group, client = data["consumerGroup"], data["clientId"]
        granted = []
        for queue in data["mqSet"]:
            key = group, queue["topic"], queue["queueId"]
            if c.code == UNLOCK:
                if self.locks.get(key) == client:
                    del self.locks[key]
                continue
            now = trio.current_time()
            if now - self.locked_at.get(key, now) > LOCK_LIFETIME:
                self.locks.pop(key, None)
            if self.locks.setdefault(key, client) == client:
                self.locked_at[key] = now
                granted.append(queue)
        return c.reply(0, {}, json.dumps({"lockOKMQSet": granted}).encode())

    async def _answer_pull(self, connection: Connection, c: Command) -> None:
        place = c.ext["topic"], int(c.ext["queueId"])
        with trio.move_on_after(int(c.ext["suspendTimeoutMillis"]) / 1000):
            while self._pull(c) is None:
                await self._arrived[place].wait()
        nothing = c.reply(19, {"nextBeginOffset": c.ext["queueOffset"]})
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await connection.send(self._pull(c) or nothing)

    def _pull(self, c: Command) -> Command | None:
        """None: there is nothing yet."""
        place = c.ext["topic"], int(c.ext["queueId"])
        records, first = self.queues[place], self.first[place]
        at, end = int(c.ext["queueOffset"]), len(self.queues[place])
        bounds = self.bounds(c)
        if at < first or at > end:
            return c.reply(21, bounds | {"nextBeginOffset": str(first if at < first else end)})
        if at == end:
            return None
        found = records[at : at + int(c.ext["maxMsgNums"])]
        body = b"".join(encode_record(r) for r in found)
        return c.reply(0, bounds | {"nextBeginOffset": str(at + len(found))}, body)

    def bounds(self, c: Command) -> dict[str, str]:
        """What every answer to a pull says of its queue."""
        place = c.ext["topic"], int(c.ext["queueId"])
        return {
            "minOffset": str(self.first[place]),
            "maxOffset": str(len(self.queues[place])),
            "suggestWhichBrokerId": "0",
        }


def group_broker(broker: StreamBroker) -> GroupBroker:
    """A broker of a cluster of `GroupBroker`s."""
    return cast(GroupBroker, broker)
