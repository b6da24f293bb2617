"""What a request is about, for lines of the log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

LONGEST = 255
"""Characters of a name that are kept."""
_SEND_SHORT = (310, 320)
"""Request codes with short names of fields: SEND_MESSAGE_V2, SEND_BATCH_MESSAGE."""


@dataclass(frozen=True, slots=True)
class About:
    """What a request is about, as far as it says so."""

    topic: str | None = None
    group: str | None = None
    queue: str | None = None
    client: str | None = None


NOTHING = About()


def about(code: int, ext: Mapping[str, str]) -> About:
    """What these fields of a request say."""
    if code in _SEND_SHORT:
        topic, group, queue = ext.get("b"), ext.get("a"), ext.get("e")
    else:
        topic, queue = ext.get("topic"), ext.get("queueId")
        group = ext.get("consumerGroup") or ext.get("producerGroup") or ext.get("group")
    client = ext.get("clientID") or ext.get("clientId")
    if topic is group is queue is client is None:
        return NOTHING
    return About(_short(topic), _short(group), _short(queue), _short(client))


def _short(text: str | None) -> str | None:
    return text if text is None or len(text) <= LONGEST else text[:LONGEST]
