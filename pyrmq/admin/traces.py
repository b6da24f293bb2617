"""What became of a message: its trace, and what each group has made of it by its offsets.

[TraceDataEncoder, TraceView, MessageTrack]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import islice

import trio

from pyrmq.admin.connections import BROADCASTING, PUSH, ConsumerConnections
from pyrmq.admin.consume_stats import BroadcastingError, GroupProgress, is_offline
from pyrmq.admin.link import AT_ONCE, Part
from pyrmq.admin.outcome import Partial
from pyrmq.admin.topics import TopicStats
from pyrmq.errors import PyrmqError, ResponseError
from pyrmq.model.record import ReceivedMessage
from pyrmq.model.route import MASTER_ID
from pyrmq.model.topic import as_int

FIELD_END, RECORD_END = "\x01", "\x02"
_MOST_FIELDS = 32
MAX_TRACES = 1024
"""Most records of an answer about a message."""
MOST_EACH = 64
"""Most of them from one message of the trace topic. Clients write one or two."""


@dataclass(frozen=True, slots=True)
class Trace:
    """One action of a client with a message."""

    kind: str
    """`Pub`: it was sent; `SubAfter`: it was consumed."""
    message_id: str
    topic: str
    group: str
    client_host: str
    time: int
    """The time of the action, or of the record; ms since 1970."""
    cost_ms: int
    success: bool


def traces_of(message: ReceivedMessage, message_id: str) -> list[Trace]:
    """The first records about one message in a message of the trace topic, MOST_EACH at most. Every
    client may write there: what one of them makes up has to leave room for what others say."""
    mine = (t for t in read_traces(message) if t.message_id == message_id)
    return list(islice(mine, MOST_EACH))


def read_traces(message: ReceivedMessage) -> Iterator[Trace]:
    """The records in a message of the trace topic; invalid ones are skipped."""
    for text in message.raw_body.decode(errors="replace").split(RECORD_END):
        fields = text.split(FIELD_END, _MOST_FIELDS)
        if fields[0] == "Pub" and len(fields) >= 13:
            yield _sent(fields, message)
        elif fields[0] == "SubAfter" and len(fields) >= 5:
            yield _consumed(fields, message)


def _sent(fields: list[str], message: ReceivedMessage) -> Trace:
    # Clients before 4.4 wrote no offsetMsgId, and since 5.0 some write their host last.
    success = fields[12] if len(fields) == 13 else fields[13]
    host = fields[14] if len(fields) > 14 else _host(message)
    return Trace(
        "Pub", fields[5], fields[4], fields[3], host, as_int(fields[1], 0), as_int(fields[10], 0),
        success == "true",
    )  # fmt: skip


def _consumed(fields: list[str], message: ReceivedMessage) -> Trace:
    time = as_int(fields[7], 0) if len(fields) > 7 else message.store_timestamp
    group = fields[8] if len(fields) > 8 else ""
    return Trace(
        "SubAfter", fields[2], "", group, _host(message), time, as_int(fields[3], 0),
        fields[4] == "true",
    )  # fmt: skip


def _host(message: ReceivedMessage) -> str:
    return message.born_host.rpartition(":")[0].strip("[]")


ACTIVELY = "CONSUME_ACTIVELY"


class TrackType(Enum):
    """[org.apache.rocketmq.tools.admin.api.TrackType]"""

    CONSUMED = "CONSUMED"
    CONSUMED_BUT_FILTERED = "CONSUMED_BUT_FILTERED"
    """The group's offset is behind it, and the group does not want its tag."""
    PULL = "PULL"
    """The group pulls, and may keep its offsets elsewhere."""
    NOT_CONSUME_YET = "NOT_CONSUME_YET"
    NOT_ONLINE = "NOT_ONLINE"
    CONSUME_BROADCASTING = "CONSUME_BROADCASTING"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class Track:
    """One group. `error`: why its state is unknown, `CODE:… DESC:…` if a server said it."""

    group: str
    type: TrackType
    error: str | None = None


class MessageTracks(Part):
    """The part of `admin.messages` that finds which groups have consumed a message."""

    async def tracks(self, message: ReceivedMessage) -> Partial[Track]:
        """The state of the message in each group that consumes its topic, by group; a group that
        cannot be asked has a Track with the reason. Raises TopicNotExistError, and the error of a
        broker if none listed its groups. [messageTrackDetail]"""
        groups = await TopicStats(self._link).groups(message.topic)
        broker = message.broker_name or await self._broker_at(message.store_host)
        found: dict[str, Track] = {}
        waiting = iter(groups)

        async def lane() -> None:
            for group in waiting:
                found[group] = await self._track(message, broker, group)

        async with trio.open_nursery() as nursery:
            for _ in range(min(AT_ONCE, len(groups))):
                nursery.start_soon(lane)
        return Partial([found[group] for group in groups], groups.failed)

    async def _broker_at(self, address: str) -> str:
        """The name of the broker whose master is at an address, empty if there is none."""
        for broker in (await self._link.cluster_info()).brokers.values():
            if broker.broker_addrs.get(MASTER_ID) == address:
                return broker.broker_name
        return ""

    async def _track(self, message: ReceivedMessage, broker: str, group: str) -> Track:
        progress = GroupProgress(self._link)
        try:
            online = await progress.connections(group)
            if online.consume_type == ACTIVELY:
                return Track(group, TrackType.PULL)
            if online.message_model == BROADCASTING:
                return Track(group, TrackType.CONSUME_BROADCASTING)
            if online.consume_type != PUSH:
                return Track(group, TrackType.UNKNOWN, f"it consumes by {online.consume_type}")
            if not broker:
                why = f"no broker's master is at {message.store_host} any more"
                return Track(group, TrackType.UNKNOWN, why)
            stats = await progress.consume_stats(group, message.topic)
        except PyrmqError as e:
            return Track(group, _type_of(e), _said(e))
        at = (message.topic, broker, message.queue_id)
        consumed = any(
            (q.queue.topic, q.queue.broker_name, q.queue.queue_id) == at
            and q.consumer_offset > message.queue_offset
            for q in stats.queues
        )
        missing = [o.target for o in stats.failed if o.name in ("", broker)]
        if not consumed and missing:
            return Track(group, TrackType.UNKNOWN, f"{missing[0]} does not answer")
        return Track(group, _made_of(message, online) if consumed else TrackType.NOT_CONSUME_YET)


def _made_of(message: ReceivedMessage, online: ConsumerConnections) -> TrackType:
    for subscribed in online.subscriptions:
        wanted = subscribed.tags
        if subscribed.topic == message.topic and wanted and not wanted & {"*", message.tags}:
            return TrackType.CONSUMED_BUT_FILTERED
    return TrackType.CONSUMED


def _type_of(error: PyrmqError) -> TrackType:
    if isinstance(error, BroadcastingError):
        return TrackType.CONSUME_BROADCASTING
    return TrackType.NOT_ONLINE if is_offline(error) else TrackType.UNKNOWN


def _said(error: PyrmqError) -> str | None:
    if isinstance(error, BroadcastingError):
        return None
    if isinstance(error, ResponseError):
        return f"CODE:{int(error.code or 0)} DESC:{error.args[0]}"
    return str(error)
