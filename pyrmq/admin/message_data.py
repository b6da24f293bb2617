"""Messages as programs read them: the members of their JSON."""

from __future__ import annotations

from typing import Any

from pyrmq.model.record import ReceivedMessage


def message_data(message: ReceivedMessage) -> dict[str, Any]:
    """A message without its body as JSON and YAML have it; times in ms since 1970."""
    return {
        "topic": message.topic,
        "broker": message.broker_name or None,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "commitLogOffset": message.commit_log_offset,
        "msgId": message.msg_id,
        "offsetMsgId": message.offset_msg_id,
        "tags": message.tags,
        "keys": message.keys,
        "bornTimestamp": message.born_timestamp,
        "bornHost": message.born_host,
        "storeTimestamp": message.store_timestamp,
        "storeHost": message.store_host,
        "reconsumeTimes": message.reconsume_times,
        "sysFlag": message.sys_flag,
        "properties": message.properties,
    }
