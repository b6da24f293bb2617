"""SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE as clients send them: the fields of the request, and
where an answer says that messages are. [SendMessageRequestHeaderV2, SendMessageResponseHeader]

`send_fields` and `queue_fields` are the fields, `send_text` and `queue_text` the same as they stand
in a JSON header: what does not change from message to message is encoded once.
"""

from __future__ import annotations

from functools import lru_cache

from pyrmq.engine import Command
from pyrmq.errors import ProtocolError
from pyrmq.model.codes import RequestCode
from pyrmq.model.names import AUTO_CREATE_TOPIC
from pyrmq.model.route import DEFAULT_QUEUES
from pyrmq.net.clock import now_ms
from pyrmq.net.command import json_fields, json_text, number


def send_code(batch: bool) -> RequestCode:
    return RequestCode.SEND_BATCH_MESSAGE if batch else RequestCode.SEND_MESSAGE_V2


def send_fields(
    group: str, topic: str, properties: str, *, flag: int, sys_flag: int = 0, batch: bool = False
) -> dict[str, str | int | bool]:
    """The request's fields but for those of the queue (`queue_fields`); bornTimestamp is now."""
    return {
        "a": group,
        "b": topic,
        "c": AUTO_CREATE_TOPIC,
        "d": DEFAULT_QUEUES,
        "f": sys_flag,
        "g": now_ms(),
        "h": flag,
        "i": properties,
        "j": 0,
        "k": False,
        "m": batch,
    }


def queue_fields(queue_id: int, broker: str) -> dict[str, str | int | bool]:
    """The fields that say where a send goes."""
    return {"e": queue_id, "n": broker}


def send_text(
    group: str, topic: str, properties: str, *, flag: int, sys_flag: int = 0, batch: bool = False
) -> str:
    """As `send_fields`."""
    return (
        f'{_fixed_text(group, topic, batch)},"f":"{sys_flag}","g":"{now_ms()}","h":"{flag}",'
        f'"i":{json_text(properties)},'
    )


@lru_cache(256)
def _fixed_text(group: str, topic: str, batch: bool) -> str:
    fields = send_fields(group, topic, "", flag=0, batch=batch)
    return json_fields({name: value for name, value in fields.items() if name not in "fghi"})


def queue_text(queue_id: int, broker: str) -> str:
    """As `queue_fields`; it follows `send_text`."""
    return f'"e":"{queue_id}","n":{json_text(broker)}'


def stored_at(answer: Command) -> tuple[int, int]:
    """Queue id and queue offset (of the first message) that an answer states. ProtocolError."""
    queue_id, offset = number(answer, "queueId"), number(answer, "queueOffset")
    if queue_id < 0 or offset < 0:
        raise ProtocolError(f"stored with queueOffset={offset}, queueId={queue_id}")
    return queue_id, offset
