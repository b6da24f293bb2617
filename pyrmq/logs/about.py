"""What a line of the log is about: fields beside its text.

    log.warning("offset of %s not written: %s", escape(q), escape(e), extra=about(queue=q))

Each field becomes an attribute of the record, so every handler sees it. Values are escaped here:
they may come from the network.
"""

from __future__ import annotations

from typing import Protocol

from pyrmq.escape import escape

FIELDS = (
    "connection",
    "client",
    "user",
    "request",
    "broker",
    "namesrv",
    "topic",
    "queue",
    "group",
    "transaction",
    "message_id",
    "key",
    "path",
)
"""All of them, in the order in which lines show them."""
TRACE_FIELDS = ("trace_id", "span_id")
"""The trace and the span that were open, if something sets them on records."""
MAX_VALUE = 256
"""Characters of a value."""


class Queue(Protocol):
    """A message queue: it stands for its topic, its broker and its number."""

    @property
    def topic(self) -> str: ...
    @property
    def broker_name(self) -> str: ...
    @property
    def queue_id(self) -> int: ...


def about(
    *,
    queue: Queue | int | None = None,
    connection: object = None,
    client: object = None,
    user: object = None,
    request: int | None = None,
    broker: object = None,
    namesrv: object = None,
    topic: object = None,
    group: object = None,
    transaction: object = None,
    message_id: object = None,
    key: object = None,
    path: object = None,
) -> dict[str, str | int]:
    """For `extra` of a log call; what is None or empty is left out.

    connection: address of the other end. client: a client's id. user: who asked. request: a
    request code. broker: its name, or its address. namesrv: a name server's address. key: a
    configuration key. path: a file.
    """
    found: dict[str, str | int] = {}
    if isinstance(queue, int):
        found["queue"] = queue
    elif queue is not None:
        found["queue"] = queue.queue_id
        topic, broker = topic or queue.topic, broker or queue.broker_name
    if request is not None:
        found["request"] = request
    for name, value in (
        ("connection", connection),
        ("client", client),
        ("user", user),
        ("broker", broker),
        ("namesrv", namesrv),
        ("topic", topic),
        ("group", group),
        ("transaction", transaction),
        ("message_id", message_id),
        ("key", key),
        ("path", path),
    ):
        if value is not None and (text := escape(str(value)[:MAX_VALUE])):
            found[name] = text
    return found
