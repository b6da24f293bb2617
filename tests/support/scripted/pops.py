"""Brokers of consumer groups that know POP: what is popped is invisible for a time, and comes again
in a retry topic unless it was acknowledged.

    cluster = StreamCluster("broker-a", kind=PopBroker)

Its clock is trio's, so that a MockClock may jump.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from typing import NamedTuple, cast

import trio

from pyrmq.model.pop import BatchAck, ExtraInfo, offsets_info, retry_of, retry_topic_v1, start_info
from tests.support.records import encode_record
from tests.support.scripted.groups import GroupBroker
from tests.support.scripted.streams import QUEUES, Connection, StreamBroker
from tests.support.wire import Command

ASSIGNMENT = 400
POP, ACK, CHANGE, NOTIFY, BATCH_ACK = 200050, 200051, 200053, 200054, 200151
EPOCH = 1_700_000_000_000
"""The broker's time when trio's clock shows 0, ms."""
ORDERLY = 999


def now() -> int:
    return EPOCH + round(trio.current_time() * 1000)


class Place(NamedTuple):
    """A message that is invisible."""

    group: str
    topic: str
    queue: int
    offset: int


class PopBroker(GroupBroker):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.modes: dict[str, str] = {}
        """PULL or POP by topic, for QUERY_ASSIGNMENT; PULL for others."""
        self.invisible: dict[Place, tuple[int, int, str]] = {}
        """When each was popped, when it becomes visible (ms), and the topic that was asked for."""
        self.acked: list[Place] = []
        """Each acknowledgement that counted, in order."""
        self.late: list[Place] = []
        """Those that came too late, or twice."""
        self.polling = 0
        """Pops and notifications that wait."""
        self._changed = trio.Event()
        self._lost: set[int] = set()
        """Connections that have ended, by id()."""

    def wake(self, place: tuple[str, int]) -> None:
        super().wake(place)
        self._change()

    def _change(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    async def handle(self, connection: Connection, command: Command) -> bool:
        if command.code not in (POP, NOTIFY) or command.code in self.change or self.stalled:
            return await super().handle(connection, command)
        self.asked.append(command)
        self.seen.append(("", command))
        assert self.nursery is not None
        self.nursery.start_soon(self._answer_poll, connection, command)
        return True

    async def _answer_poll(self, connection: Connection, c: Command) -> None:
        answer = None
        self.polling += 1
        with trio.move_on_after(int(c.ext["pollTime"]) / 1000):
            while id(connection) not in self._lost and (answer := self._poll(c)) is None:
                visible = min((until for _, until, _ in self.invisible.values()), default=None)
                wait = float("inf") if visible is None else max(visible - now(), 1) / 1000
                with trio.move_on_after(wait):
                    await self._changed.wait()
        self.polling -= 1
        if id(connection) in self._lost:
            return
        nothing = c.reply(210) if c.code == POP else c.reply(0, {"hasMsg": "false"})
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await connection.send(answer or self._poll(c) or nothing)

    def gone(self, connection: Connection) -> None:
        super().gone(connection)
        self._lost.add(id(connection))

    def _poll(self, c: Command) -> Command | None:
        self._revive()
        if c.code == NOTIFY:
            return c.reply(0, {"hasMsg": "true"}) if self._take(c, 1, peek=True) else None
        found = self._take(c, int(c.ext["maxMsgNums"]), peek=False)
        if not found:
            return None
        records = [self.queues[p.topic, p.queue][p.offset] for p in found]
        starts: dict[tuple[str, int], list[int]] = {}
        for place in found:
            starts.setdefault((retry_of(place.topic), place.queue), []).append(place.offset)
        ext = {
            "popTime": str(now()),
            "invisibleTime": c.ext["invisibleTime"],
            "reviveQid": str(ORDERLY if c.ext.get("order") == "true" else 0),
            "restNum": "0",
            "startOffsetInfo": ";".join(start_info(*k, min(v)) for k, v in starts.items()),
            "msgOffsetInfo": ";".join(offsets_info(*k, v) for k, v in starts.items()),
        }
        return c.reply(0, ext, b"".join(encode_record(r) for r in records))

    def _take(self, c: Command, count: int, *, peek: bool) -> list[Place]:
        group, topic, asked = c.ext["consumerGroup"], c.ext["topic"], int(c.ext["queueId"])
        found: list[Place] = []
        for name in (topic, retry_topic_v1(topic, group)):
            for queue in range(QUEUES):
                if name == topic and asked not in (-1, queue):
                    continue
                if c.ext.get("order") == "true" and any(
                    (p.group, p.topic, p.queue) == (group, name, queue) for p in self.invisible
                ):
                    continue
                at = self.offsets.get((group, name, queue), 0)
                some = self.queues[name, queue][at : at + count - len(found)]
                found += [Place(group, name, queue, r.queue_offset) for r in some]
                if some and not peek:
                    self.offsets[group, name, queue] = some[-1].queue_offset + 1
        if not peek:
            until = now() + int(c.ext["invisibleTime"])
            self.invisible |= {place: (now(), until, topic) for place in found}
        return found

    def _revive(self) -> None:
        """What became visible comes again."""
        due = [p for p, (_, until, _) in self.invisible.items() if until <= now()]
        for place in due:
            _, _, topic = self.invisible.pop(place)
            record = self.queues[place.topic, place.queue][place.offset]
            retry = retry_topic_v1(topic, place.group)
            again = self.queues[retry, 0]
            again.append(
                replace(
                    record,
                    topic=retry,
                    queue_id=0,
                    queue_offset=len(again),
                    reconsume_times=record.reconsume_times + 1,
                )
            )
        if due:
            self._change()

    def usual(self, c: Command) -> Command:
        if c.code == ASSIGNMENT:
            return self._assign(c)
        if c.code == ACK:
            self._ack(self._place(c), ExtraInfo.parse(c.ext["extraInfo"]).pop_time)
            return c.reply(0)
        if c.code == BATCH_ACK:
            for entry in json.loads(c.body)["acks"]:
                ack = BatchAck.of_json(entry)
                handle = ExtraInfo(0, 0, 0, 0, ack.retry, "", 0, 0)
                for offset in ack.offsets:
                    topic = handle.topic(ack.topic, ack.group)
                    self._ack(Place(ack.group, topic, ack.queue_id, offset), ack.pop_time)
            return c.reply(0)
        if c.code == CHANGE:
            place = self._place(c)
            known = self.invisible.get(place)
            if known is None or known[0] != ExtraInfo.parse(c.ext["extraInfo"]).pop_time:
                return c.reply(208)
            milliseconds = int(c.ext["invisibleTime"])
            self.invisible[place] = now(), now() + milliseconds, known[2]
            self._change()
            ext = {"popTime": now(), "invisibleTime": milliseconds, "reviveQid": 0}
            return c.reply(0, {name: str(value) for name, value in ext.items()})
        return super().usual(c)

    def _place(self, c: Command) -> Place:
        ext = c.ext
        return Place(ext["consumerGroup"], ext["topic"], int(ext["queueId"]), int(ext["offset"]))

    def _ack(self, place: Place, pop_time: int) -> None:
        known = self.invisible.get(place)
        if known is None or known[0] != pop_time or known[1] <= now():
            self.late.append(place)
            return
        del self.invisible[place]
        self.acked.append(place)
        self._change()

    def _assign(self, c: Command) -> Command:
        asked = json.loads(c.body)
        topic = asked["topic"]
        mode = self.modes.get(topic, "PULL")
        queues = [-1] if mode == "POP" else range(QUEUES)
        assignments = [
            {
                "mode": mode,
                "messageQueue": {"topic": topic, "brokerName": self.name, "queueId": queue},
            }
            for queue in queues
        ]
        body = json.dumps({"messageQueueAssignments": assignments}).encode()
        return c.reply(0, {}, body)

    def bodies(self, places: list[Place]) -> list[bytes]:
        """The bodies of messages."""
        return [self.queues[p.topic, p.queue][p.offset].body for p in places]


def pop_broker(broker: StreamBroker) -> PopBroker:
    """A broker of a cluster of `PopBroker`s."""
    return cast(PopBroker, broker)
