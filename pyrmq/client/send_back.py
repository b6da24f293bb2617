"""CONSUMER_SEND_MSG_BACK: what a group failed on goes to its retry topic, or in the end to its
dead-letter topic. [DefaultMQPushConsumerImpl.sendMessageBack]"""

from __future__ import annotations

from pyrmq.client.instance import ClientInstance
from pyrmq.client.namespaces import Namespace
from pyrmq.model.codes import RequestCode
from pyrmq.model.message import MessageQueue, ReceivedMessage

TIMEOUT = 5.0
MAX_RECONSUME_TIMES = 16
"""Deliveries after the first one before a message counts as dead. [maxReconsumeTimes]"""
BROKERS_CHOICE = 0
"""The delay level that has the broker choose by the number of deliveries."""
NEVER = -1
"""The delay level of a message that is dead at once."""


class SendBack:
    """`group` is that of the broker."""

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
        """Returns when the broker has it: the message is as good as consumed. PyrmqError.
        `queue` is the one that it was pulled from."""
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
        await channel.request(RequestCode.CONSUMER_SEND_MSG_BACK, fields, timeout=TIMEOUT)
