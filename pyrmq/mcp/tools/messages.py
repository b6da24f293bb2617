"""Tools about messages."""

from __future__ import annotations

import base64
import codecs
from contextlib import aclosing
from typing import Any

from pyrmq.admin.api import Admin
from pyrmq.errors import PyrmqError
from pyrmq.escape import json_line
from pyrmq.mcp.arguments import Argument, Asked
from pyrmq.mcp.shown import Long, cut_text, problems
from pyrmq.mcp.tool import TOPIC, ReadTool
from pyrmq.model.message import MessageQueue
from pyrmq.model.record import ReceivedMessage

MAX_PROPERTY = 512
"""Characters of one property."""
MAX_PROPERTIES = 64
MAX_SHOWN = 48 << 10
"""Bytes of the messages of one result; the first one is always shown."""
_BODY = Argument("body_bytes", "Most bytes of a body.", "whole", default=1024, high=16_384)
_LIMIT = Argument("limit", "Most messages.", "whole", default=10, low=1, high=64)
_FOREVER = 2**63 - 1


def shown_message(found: ReceivedMessage, body_bytes: int) -> dict[str, Any]:
    """A message: its body as text if it is UTF-8, as base64 otherwise, up to a bound."""
    properties = list(found.properties.items())
    cut = len(properties) - MAX_PROPERTIES
    return {
        "topic": found.topic,
        "id": found.msg_id,
        "offset_id": found.offset_msg_id,
        "broker_name": found.broker_name or None,
        "queue": found.queue_id,
        "offset": found.queue_offset,
        "tag": found.tags,
        "keys": found.keys,
        "sent_at": found.born_timestamp,
        "sent_from": found.born_host,
        "stored_at": found.store_timestamp,
        "reconsume_times": found.reconsume_times,
        "properties": {
            k[:MAX_PROPERTY]: cut_text(v, MAX_PROPERTY) for k, v in properties[:MAX_PROPERTIES]
        },
        **({"properties_cut": cut} if cut > 0 else {}),
        **_body(found.raw_body, body_bytes),
        **({"body_error": str(found.body_error)} if found.body_error else {}),
    }


def _body(body: bytes, most: int) -> dict[str, Any]:
    head = body[:most]
    is_cut = len(head) < len(body)
    said = {"body_size": len(body), **({"body_shown_bytes": len(head)} if is_cut else {})}
    try:  # what is shown may end within a letter
        text = codecs.getincrementaldecoder("utf-8")().decode(head, final=not is_cut)
    except UnicodeDecodeError:
        return {**said, "body_base64": Long(base64.b64encode(head).decode())}
    return {**said, "body": Long(text)}


class _Shown:
    """Messages of one result: at most `limit`, and not too many bytes."""

    def __init__(self, asked: Asked) -> None:
        self.rows: list[dict[str, Any]] = []
        self._limit = asked["limit"]
        self._body_bytes = asked["body_bytes"]
        self._size = 0

    def take(self, message: ReceivedMessage) -> bool:
        """Whether there was room for it."""
        row = shown_message(message, self._body_bytes)
        self._size += len(json_line(row))
        if len(self.rows) == self._limit or (self.rows and self._size > MAX_SHOWN):
            return False
        self.rows.append(row)
        return True


async def _get(admin: Admin, asked: Asked) -> Any:
    found = await admin.messages.get(asked["topic"], asked["id"])
    shown = shown_message(found, asked["body_bytes"])
    try:
        tracks = await admin.messages.tracks(found)
    except PyrmqError as e:
        return {**shown, **problems([e])}
    groups = [{"group": t.group, "state": t.type.value, "error": t.error} for t in tracks]
    return {**shown, "groups": groups, **problems(tracks.failed)}


async def _by_key(admin: Admin, asked: Asked) -> Any:
    end = _FOREVER if asked["end"] is None else asked["end"]
    found = await admin.messages.by_key(
        asked["topic"], asked["key"], begin=asked["begin"] or 0, end=end, limit=asked["limit"]
    )
    shown = _Shown(asked)
    for message in found:
        if not shown.take(message):
            break
    more = len(found) - len(shown.rows)
    left_out = {"more_messages": more} if more else {}
    return {"messages": shown.rows, **left_out, **problems(found.failed)}


async def _read(admin: Admin, asked: Asked) -> Any:
    queue = MessageQueue(asked["topic"], asked["broker_name"], asked["queue"])
    part = await admin.messages.slice(queue, begin=asked["begin"])
    if asked["offset"] is not None:
        part = type(part)(queue, max(asked["offset"], 0), part.end)
    shown = _Shown(asked)
    async with aclosing(admin.messages.read(part, expression=asked["tags"])) as found:
        async for message in found:
            if not shown.take(message):
                break
    following = shown.rows[-1]["offset"] + 1 if shown.rows else part.end
    return {"messages": shown.rows, "next_offset": following, "end_of_queue": part.end}


async def _trace(admin: Admin, asked: Asked) -> Any:
    found = await admin.messages.traces(asked["id"])
    return {"trace": list(found), **problems(found.failed)}


async def _life(admin: Admin, asked: Asked) -> Any:
    found = await admin.lives.of_id(asked["id"], topic=asked["topic"])
    facts = [
        {"what": f.what.name, "at": f.time or None, "text": f.text, "source": f.source}
        for f in found.facts
    ]
    return {
        "id": found.message_id, "topic": found.topic, "facts": facts, "unknown": found.unknown,
        **problems(found.failed),
    }  # fmt: skip


_ID = Argument(
    "id", "Unique id or offset id of the message.", required=True, longest=128, leads_to="message"
)

TOOLS = (
    ReadTool(
        "message_get", "A message by its id",
        "A message by its offset id, or by its unique id among those of the last three days, and "
        "what groups have made of it. The body is data of its sender.",
        _get, (TOPIC, _ID, _BODY),
    ),
    ReadTool(
        "message_by_key", "Messages by key", "Messages of a topic that were sent with a key.",
        _by_key,
        (
            TOPIC, Argument("key", "The key.", required=True),
            Argument("begin", "Stored from this time on.", "time", longest=64),
            Argument("end", "Stored before this time.", "time", longest=64), _LIMIT, _BODY,
        ),
    ),
    ReadTool(
        "message_read", "Messages of a queue",
        "Messages of a queue from an offset or a time on. Nothing is consumed: no offset changes.",
        _read,
        (
            TOPIC, Argument("broker_name", "The broker's name: see topic_status.", required=True),
            Argument("queue", "The queue's number.", "whole", required=True, high=65_535),
            Argument("offset", "From this offset on.", "whole"),
            Argument("begin", "From this time on.", "time", longest=64),
            Argument("tags", "Only these tags, such as `A || B`.", default="*"), _LIMIT, _BODY,
        ),
    ),
    ReadTool(
        "message_trace", "Trace of a message",
        "Who sent and consumed a message, if clients write traces.", _trace, (_ID,),
    ),
    ReadTool(
        "message_life", "Life of a message",
        "All that is known of a message by time: sent, stored, delays, transaction, retries, dead "
        "letters, who consumed it, and what cannot be known.",
        _life, (_ID, Argument("topic", "Its topic; without it all topics are searched.")),
    ),
)  # fmt: skip
