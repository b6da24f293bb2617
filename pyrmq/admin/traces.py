"""Records of clients about a message in the trace topic. [TraceDataEncoder, TraceView]"""

from __future__ import annotations

from dataclasses import dataclass

from pyrmq.model.record import ReceivedMessage
from pyrmq.model.topic import as_int

FIELD_END, RECORD_END = "\x01", "\x02"
_MOST_FIELDS = 32


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


def read_traces(message: ReceivedMessage) -> list[Trace]:
    """The records in a message of the trace topic; invalid ones are skipped."""
    found = []
    for text in message.raw_body.decode(errors="replace").split(RECORD_END):
        fields = text.split(FIELD_END, _MOST_FIELDS)
        if fields[0] == "Pub" and len(fields) >= 13:
            found.append(_sent(fields, message))
        elif fields[0] == "SubAfter" and len(fields) >= 5:
            found.append(_consumed(fields, message))
    return found


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
