"""Names of options that Kafka's source and RocketMQ's clients have, and which of ours is meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

_NAME_SERVERS = "nameServer (name servers, host:9876;host:9876)"
_NO_GROUP = (
    "reads have no group: they commit no offsets, and Spark's checkpoint keeps the position; "
    "leave it out"
)

_MEANT: dict[str, str] = {
    "kafkabootstrapservers": f"{_NAME_SERVERS}, not brokers",
    "bootstrapservers": f"{_NAME_SERVERS}, not brokers",
    "brokers": f"{_NAME_SERVERS}, not brokers",
    "namesrvaddr": _NAME_SERVERS,
    "namesrv": _NAME_SERVERS,
    "namesrvaddress": _NAME_SERVERS,
    "namesrvaddrs": _NAME_SERVERS,
    "nameserveraddr": _NAME_SERVERS,
    "nameserveraddress": _NAME_SERVERS,
    "nameserveraddresses": _NAME_SERVERS,
    "rocketmqnameserver": _NAME_SERVERS,
    "rocketmqnamesrvaddr": _NAME_SERVERS,
    "rocketmqconfignamesrvaddr": _NAME_SERVERS,
    "endpoints": _NAME_SERVERS,
    "topics": "subscribe",
    "topicpattern": "subscribePattern",
    "topicspattern": "subscribePattern",
    "tag": "subExpression",
    "tags": "subExpression",
    "filterexpression": "subExpression",
    "queues": "assign",
    "consumefromwhere": "startingOffsets (earliest or latest) or startingTimestamp",
    "autooffsetreset": "startingOffsets (earliest or latest)",
    "kafkaautooffsetreset": "startingOffsets (earliest or latest)",
    "consumetimestamp": "startingTimestamp",
    "starttime": "startingTimestamp",
    "endtime": "endingTimestamp",
    "starttimestamp": "startingTimestamp",
    "endtimestamp": "endingTimestamp",
    "offsets": "startingOffsets",
    "maxpollrecords": "pullBatchSize, or maxOffsetsPerTrigger for a stream",
    "kafkamaxpollrecords": "pullBatchSize, or maxOffsetsPerTrigger for a stream",
    "kafkaconsumerpolltimeoutms": "pullTimeoutMs",
    "consumerpulltimeoutmillis": "pullTimeoutMs",
    "maxfilespertrigger": "maxOffsetsPerTrigger or maxBytesPerTrigger",
    "timeout": "pullTimeoutMs for reads, sendMsgTimeout for writes",
}
"""By name without case and separators."""

_SAID: dict[str, str] = {
    **dict.fromkeys(
        ("group", "groupid", "groupidprefix", "kafkagroupid", "consumergroup", "groupname"),
        _NO_GROUP,
    ),
    "checkpointlocation": "it belongs to writeStream, not to the source: "
    ".writeStream.option('checkpointLocation', ...)",
    "maxrecordsperbatch": "batchRows bounds Arrow batches, maxOffsetsPerTrigger micro-batches",
}


def plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def hint(name: str, usable: Iterable[str], every: Iterable[str]) -> str | None:
    """What to say of a name that is no option: which one is meant, by the names that others have
    for it or by the nearest one, first of those that are `usable`. None: nothing is near."""
    key = plain(name)
    if key in _SAID:
        return _SAID[key]
    if key in _MEANT:
        return f"did you mean {_MEANT[key]}?"
    if key.startswith("kafka"):
        return "options of Kafka's client are not known here"
    for candidates in (usable, every):
        near = difflib.get_close_matches(key, by_plain := _by_plain(candidates), n=1, cutoff=0.6)
        if near:
            return f"did you mean {by_plain[near[0]]}?"
    return None


def _by_plain(names: Iterable[str]) -> dict[str, str]:
    return {plain(name): name for name in names}
