"""Sends failed messages back to their broker: to the group's retry topic, or finally to its
dead-letter topic. [DefaultMQPushConsumerImpl.sendMessageBack]

CONSUMER_SEND_MSG_BACK names the message by its place in the log. If the broker refuses that (a
message of an inner batch, or a record without room for more properties), the message is sent to the
retry topic as a new one. A message that the broker cannot store in either way would block its queue
for ever, so it is finally given up.
"""

from __future__ import annotations

import logging
import zlib

from pyrmq.client.instance import ClientInstance
from pyrmq.client.namespaces import Namespace
from pyrmq.errors import MessageIllegalError, ResponseError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.codes import RequestCode, ResponseCode
from pyrmq.model.compression import COMPRESSED, COMPRESSION_MASK
from pyrmq.model.message import MessageQueue, ReceivedMessage, SendStatus
from pyrmq.model.names import retry_topic
from pyrmq.model.properties import DELAY, encode_properties
from pyrmq.model.transaction import TRAN_MSG
from pyrmq.net.client.channel import Channel
from pyrmq.net.client.requests import queue_fields, send_code, send_fields

log = logging.getLogger(__name__)

TIMEOUT = 5.0
STORED = frozenset(status.value for status in SendStatus) - {SendStatus.SEND_OK.value}
"""Codes of a broker that has stored the message."""
MAX_RECONSUME_TIMES = 16
"""Further deliveries before a message goes to the dead-letter topic. [maxReconsumeTimes]"""
BROKERS_CHOICE = 0
"""The delay level with which the broker chooses by the number of deliveries."""
NEVER = -1
"""The delay level of a message that goes to the dead-letter topic at once."""
FIRST_LEVEL = 3
"""Delay level of the first retry."""
COMPRESS_OVER = 4096
"""Bodies from so many bytes on are compressed."""


class SendBack:
    """`group` has the broker's name."""

    def __init__(
        self, client: ClientInstance, group: str, names: Namespace, max_reconsume_times: int
    ) -> None:
        self._client = client
        self._names = names
        self._group = group
        self._max_times = max_reconsume_times

    async def __call__(
        self, queue: MessageQueue, message: ReceivedMessage, delay_level: int = BROKERS_CHOICE
    ) -> None:
        """Returns when the broker has the message (also with a status other than SEND_OK), or can
        never store it: the message then counts as consumed. Raises PyrmqError. `queue` is the queue
        that it was pulled from."""
        channel = await self._client.known_master(queue.topic, queue.broker_name)
        fields: dict[str, str | int | bool] = {
            "offset": message.commit_log_offset,
            "group": self._group,
            "delayLevel": delay_level,
            "originMsgId": message.msg_id,
            "originTopic": self._names.wire(message.topic),
            "unitMode": False,
            "maxReconsumeTimes": self._max_times,
            "bname": queue.broker_name,
        }
        try:
            await channel.request(RequestCode.CONSUMER_SEND_MSG_BACK, fields, timeout=TIMEOUT)
        except ResponseError as refusal:
            if _is_stored(refusal, message):
                return
            if not refusal.answered or refusal.retriable:
                raise
            try:
                await self._send(channel, queue, message, delay_level)
            except MessageIllegalError as e:
                if delay_level != NEVER and message.reconsume_times < self._max_times:
                    raise
                log.error(
                    "message %s of group %s is given up: its broker can store it neither in the "
                    "retry topic nor in the dead-letter topic (%s). It stays at offset %d of %s",
                    escape(message.msg_id),
                    escape(self._group),
                    escape(e),
                    message.queue_offset,
                    escape(queue),
                    extra=about(queue=queue, group=self._group, message_id=message.msg_id),
                )
            except ResponseError as e:
                if not _is_stored(e, message):
                    raise refusal from None

    async def _send(
        self, channel: Channel, queue: MessageQueue, message: ReceivedMessage, delay_level: int
    ) -> None:
        """Sends it as a new message. [sendMessageBackAsNormalMessage]"""
        properties = {**message.properties}
        properties.pop(TRAN_MSG, None)
        properties.setdefault("RETRY_TOPIC", self._names.wire(message.topic))
        properties.setdefault("ORIGIN_MESSAGE_ID", message.msg_id)
        properties[DELAY] = str(delay_level or FIRST_LEVEL + message.reconsume_times)
        times = message.reconsume_times + 1
        if delay_level == NEVER:  # more often than it may: a dead letter
            times = max(times, self._max_times + 1)
            del properties[DELAY]
        body, sys_flag = message.raw_body, message.sys_flag & (COMPRESSED | COMPRESSION_MASK)
        if not sys_flag & COMPRESSED and len(body) > COMPRESS_OVER:
            body, sys_flag = zlib.compress(body), COMPRESSED
        fields = send_fields(
            self._group, retry_topic(self._group), encode_properties(properties),
            flag=message.flag, sys_flag=sys_flag,
        )  # fmt: skip
        fields |= queue_fields(0, queue.broker_name)
        fields |= {"j": times, "l": self._max_times}
        await channel.request(send_code(False), fields, body, timeout=TIMEOUT)


def _is_stored(answer: ResponseError, message: ReceivedMessage) -> bool:
    """Whether the answer means that the broker has stored the message, so that another try would
    store it twice. RocketMQ puts that into the text of a SYSTEM_ERROR."""
    by_text = answer.code == ResponseCode.SYSTEM_ERROR and answer.args[0] in SendStatus.__members__
    if not answer.answered or (answer.code not in STORED and not by_text):
        return False
    log.info(
        "%s was sent back: %s",
        escape(message.msg_id),
        escape(answer),
        extra=about(message_id=message.msg_id),
    )
    return True
