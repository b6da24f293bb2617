"""Dead letters as programs read them: the members of their JSON."""

from __future__ import annotations

from typing import Any

from pyrmq.admin.dead_letters import DeadLetter


def letter_data(letter: DeadLetter) -> dict[str, Any]:
    """A letter as JSON and YAML have it; times in ms since 1970, the body as bytes."""
    stored = letter.message
    return {
        "id": letter.id,
        "group": letter.group,
        "topic": letter.topic,
        "msgId": stored.msg_id,
        "originMessageId": letter.origin_id,
        "reconsumeTimes": stored.reconsume_times,
        "broker": stored.broker_name or None,
        "queueId": stored.queue_id,
        "queueOffset": stored.queue_offset,
        "commitLogOffset": stored.commit_log_offset,
        "storeTimestamp": stored.store_timestamp,
        "bornTimestamp": stored.born_timestamp,
        "bornHost": stored.born_host,
        "tags": stored.tags,
        "keys": stored.keys,
        "resentFrom": letter.resent_from,
        "flag": stored.flag,
        "sysFlag": stored.sys_flag,
        "properties": stored.properties,
        "body": stored.raw_body,
    }
