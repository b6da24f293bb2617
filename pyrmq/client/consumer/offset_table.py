"""Tables of queues and offsets as JSON: in requests that reset offsets, and in local files.

fastjson writes a queue as the key of an object, which is no JSON; both forms that clients write are
read, and the flat list that brokers send to some of them. [MessageQueueForC, GetConsumerStatusBody]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyrmq.errors import ProtocolError
from pyrmq.model.message import MessageQueue

MAX_OFFSET = 2**63 - 1


def encode_table(offsets: Mapping[MessageQueue, int]) -> dict[Any, int]:
    """For `fastjson.dumps`."""
    return {queue.as_key(): offset for queue, offset in sorted(offsets.items())}


def decode_table(value: object) -> dict[MessageQueue, int]:
    """`{{queue}:offset}`, `[[{queue},offset]]` or `[{queue with offset}]`. ProtocolError."""
    found: dict[MessageQueue, int] = {}
    for queue, offset in _entries(value):
        if type(offset) is not int or not 0 <= offset <= MAX_OFFSET:
            raise ProtocolError(f"{offset!r:.40} is no offset")
        found[MessageQueue.from_json(queue)] = offset
    return found


def _entries(value: object) -> Iterator[tuple[Mapping[str, Any], object]]:
    if isinstance(value, Mapping):
        for key, offset in value.items():
            if not isinstance(key, tuple):
                raise ProtocolError("a table of offsets has queues as keys")
            yield dict(key), offset
    elif isinstance(value, list):
        for entry in value:
            if isinstance(entry, Mapping):
                yield entry, entry.get("offset")
            elif isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], Mapping):
                yield entry[0], entry[1]
            else:
                raise ProtocolError("a table of offsets has entries of queue and offset")
    else:
        raise ProtocolError("there is no table of offsets")
