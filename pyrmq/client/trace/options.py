"""The options `trace` and `trace_topic` of producers and consumers."""

from __future__ import annotations

from pyrmq.client.checks import check_topic
from pyrmq.errors import ClientError
from pyrmq.model.names import MAX_GROUP, TRACE_TOPIC


def check_trace(trace: bool, topic: str) -> None:
    """UnusableNameError for the topic; ClientError if it is given for nothing."""
    check_topic(topic)
    if topic != TRACE_TOPIC and not trace:
        raise ClientError("trace_topic needs trace=True")


def sender_group(group: str, kind: str) -> str:
    """The producer group of a client's tracer; `kind` is PRODUCE or CONSUME."""
    return f"_INNER_TRACE_PRODUCER-{group}-{kind}-1"[:MAX_GROUP]
