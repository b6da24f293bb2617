"""Messages that were popped are acknowledged, or become visible at another time: ACK_MESSAGE,
BATCH_ACK_MESSAGE, CHANGE_MESSAGE_INVISIBLETIME, and POP_ROLLBACK, which is refused.
[AckMessageProcessor, ChangeInvisibleTimeProcessor]"""

from __future__ import annotations

from pyrmq.broker.pop.in_flight import InFlight
from pyrmq.broker.pop.orderly import OrderlyPops
from pyrmq.broker.pop.waits import Waits
from pyrmq.broker.requests import fields
from pyrmq.broker.requests.pop_checks import PopChecks
from pyrmq.broker.tables.offset_file import QueueOfGroup
from pyrmq.engine import Command, Pops, Store
from pyrmq.errors import InvalidParameterError, MessageIllegalError, ProtocolError, ResponseError
from pyrmq.model import pop
from pyrmq.model.codes import ResponseCode
from pyrmq.model.pop import BatchAck
from pyrmq.net import fastjson
from pyrmq.net.clock import now_ms
from pyrmq.net.command import Response
from pyrmq.net.server.answers import WhenConfirmed
from pyrmq.net.server.connection import Connection

MAX_ACKS = 4096
"""Most entries of a batch."""
MAX_MESSAGES = MAX_ACKS * pop.MAX_POP
"""Most messages that a batch acknowledges: those of a check point for each entry."""


class AckProcessor:
    def __init__(
        self,
        checks: PopChecks,
        store: Store,
        pops: Pops,
        orderly: OrderlyPops,
        in_flight: InFlight,
        waits: Waits,
    ) -> None:
        self._checks = checks
        self._store = store
        self._pops = pops
        self._orderly = orderly
        self._in_flight = in_flight
        self._waits = waits

    def ack(self, connection: Connection, command: Command) -> Response | WhenConfirmed:
        """ACK_MESSAGE. One that comes twice, or late, is no error, as in RocketMQ."""
        group, topic, queue_id, offset, handle = self._checks.handle(command, end=1)
        key = topic, group, queue_id
        if handle.orderly:
            return WhenConfirmed(Response(), self._orderly.ack(key, offset, handle.pop_time))
        end = self._pops.ack(
            topic,
            queue_id,
            group,
            [offset],
            start_offset=handle.start,
            pop_time=handle.pop_time,
            invisible_time=handle.invisible_time,
            revive_queue=handle.revive_queue,
            broker_name=handle.broker_name,
        )
        self._done(key, 1, handle.pop_time + handle.invisible_time)
        return WhenConfirmed(Response(), end)

    def batch(self, connection: Connection, command: Command) -> Response | WhenConfirmed:
        """BATCH_ACK_MESSAGE. All entries are read before the first one counts."""
        body = fastjson.loads_object(command.body)
        rows, broker = body.get("acks"), body.get("brokerName")
        if rows is not None and not isinstance(rows, list):
            raise InvalidParameterError("acks of the body is a list")
        if not rows:
            raise ResponseError("the body has no acks", ResponseCode.NO_MESSAGE)
        if len(rows) > MAX_ACKS:
            raise InvalidParameterError(f"the body has {len(rows)} acks: at most {MAX_ACKS}")
        acks = _acks(rows)
        name = self._checks.live.now.broker_name if broker is None else str(broker)
        for ack in acks:
            self._checks.check_given(name, ack.pop_time, ack.revive_queue)
        return WhenConfirmed(Response(), max(self._batch_ack(ack, name) for ack in acks))

    def _batch_ack(self, ack: BatchAck, broker_name: str) -> int:
        """What the log has to be confirmed up to."""
        topic = pop.real_topic(ack.topic, ack.group, ack.retry)
        if not self._checks.has(topic, ack.queue_id):
            return 0  # as in RocketMQ: it may have been deleted
        low, high = self._store.queue_range(topic, ack.queue_id)
        offsets = [offset for offset in ack.offsets if low <= offset <= high]
        if not offsets:
            return 0
        key = topic, ack.group, ack.queue_id
        if ack.revive_queue == pop.ORDERLY:
            return max(self._orderly.ack(key, offset, ack.pop_time) for offset in offsets)
        end = 0
        for at in range(0, len(offsets), pop.MAX_POP):
            end = self._pops.ack(
                topic,
                ack.queue_id,
                ack.group,
                offsets[at : at + pop.MAX_POP],
                start_offset=ack.start,
                pop_time=ack.pop_time,
                invisible_time=ack.invisible_time,
                revive_queue=ack.revive_queue,
                broker_name=broker_name,
            )
        self._done(key, len(offsets), ack.pop_time + ack.invisible_time)
        return end

    def change(self, connection: Connection, command: Command) -> Response | WhenConfirmed:
        """CHANGE_MESSAGE_INVISIBLETIME: the new check point is there before the old one ends."""
        group, topic, queue_id, offset, handle = self._checks.handle(command, end=0)
        invisible = self._checks.invisible_time(command)
        now = now_ms()
        if handle.orderly:
            visible_at = now + invisible
            key = topic, group, queue_id
            if not self._orderly.change(key, offset, handle.pop_time, visible_at):
                # Clients need the fields.
                return Response(ext={"popTime": 0, "invisibleTime": 0, "reviveQid": 0})
            return Response(
                ext={
                    "popTime": handle.pop_time,
                    "invisibleTime": visible_at - handle.pop_time,
                    "reviveQid": handle.revive_queue,
                }
            )
        end, pop_time = self._pops.change_invisible_time(
            topic,
            queue_id,
            group,
            offset,
            start_offset=handle.start,
            pop_time=handle.pop_time,
            invisible_time=handle.invisible_time,
            revive_queue=handle.revive_queue,
            now=now,
            new_invisible_time=invisible,
            suspend=fields.flag(command, "suspend"),
            broker_name=handle.broker_name,
        )
        key = topic, group, queue_id
        visible_at = handle.pop_time + handle.invisible_time
        self._in_flight.moved(key, visible_at, pop_time + invisible)
        return WhenConfirmed(
            Response(
                ext={
                    "popTime": pop_time,
                    "invisibleTime": invisible,
                    "reviveQid": handle.revive_queue,
                }
            ),
            end,
        )

    def _done(self, key: QueueOfGroup, messages: int, visible_at: int) -> None:
        if self._in_flight.done(key, messages, visible_at):
            self._waits.visible(*key)


def _acks(rows: list[object]) -> list[BatchAck]:
    """The entries of a batch. The sets of bits of a small body may name millions of messages."""
    found: list[BatchAck] = []
    messages = 0
    for row in rows:
        try:
            ack = BatchAck.of_json(row)
        except ProtocolError as e:
            raise MessageIllegalError(f"acks of the body: {e}") from None
        messages += len(ack.offsets)
        if messages > MAX_MESSAGES:
            raise InvalidParameterError(
                f"the acks of the body are of more than {MAX_MESSAGES} messages: send several"
            )
        found.append(ack)
    return found
