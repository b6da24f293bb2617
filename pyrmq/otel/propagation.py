"""Trace context in the properties of messages, by the propagators of the program.

The names of the properties are those of the propagators: `traceparent`, `tracestate` and `baggage`
unless OTEL_PROPAGATORS says otherwise. Java's instrumentation uses the same.
"""

from __future__ import annotations

import copy
import logging
import re
from collections.abc import Mapping

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import Getter
from opentelemetry.trace import SpanContext

from pyrmq.model.message import Message
from pyrmq.model.properties import (
    MAX_PROPERTIES,
    NAME_END,
    SHARDING_KEY,
    SYSTEM_PROPERTIES,
    VALUE_END,
)
from pyrmq.model.record import ReceivedMessage

log = logging.getLogger(__name__)

TRACEPARENT, TRACESTATE = "traceparent", "tracestate"
RESERVED = 4096
"""Bytes of the properties of a message that stay free: for its id and its group, and for what
brokers add to it and to its retries."""
FEW = 4096
"""Characters of properties that fit for certain."""
MAX_TRACEPARENT = 256
MAX_TRACESTATE = 512
"""What W3C asks a reader for. A longer one is left out; the trace goes on without it."""
MAX_OTHER = 4096
_MEMBER = re.compile(
    r"[a-z0-9][a-z0-9_\-*/@]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
)


def _is_tracestate(text: str) -> bool:
    members = [part.strip(" \t") for part in text.split(",")]
    return all(not part or _MEMBER.fullmatch(part) for part in members)


class _Properties(Getter[Mapping[str, str]]):
    """Reads what others have written. What is too long, or no text of a header, is not there."""

    def get(self, carrier: Mapping[str, str], key: str) -> list[str] | None:
        value = carrier.get(key)
        if value is None or not value.isascii() or not value.isprintable():
            return None
        if key == TRACEPARENT:
            most = MAX_TRACEPARENT
        else:
            most = MAX_TRACESTATE if key == TRACESTATE else MAX_OTHER
        if len(value) > most or (key == TRACESTATE and not _is_tracestate(value)):
            return None
        return [value]

    def keys(self, carrier: Mapping[str, str]) -> list[str]:
        return list(carrier)


_GETTER = _Properties()
_NOTHING = Context()


def context_of(message: Message | ReceivedMessage) -> Context:
    """The context that a message was sent with: its span and its baggage. Empty if it has none, or
    one that cannot be read."""
    if not message.properties:
        return _NOTHING
    try:
        return propagate.extract(message.properties, context=_NOTHING, getter=_GETTER)
    except Exception as e:  # a propagator of the program
        log.debug("a message's trace context cannot be read: %r", e)
        return _NOTHING


def span_context_of(context: Context) -> SpanContext | None:
    """The span of a context; None if there is no valid one."""
    found = trace.get_current_span(context).get_span_context()
    return found if found.is_valid else None


def with_context(message: Message, context: Context, more: str | None = None) -> Message:
    """A copy of a message with the context in its properties. The message itself if there is no
    context, or no room for it. `more`: a text that becomes a property as well."""
    carrier: dict[str, str] = {}
    try:
        propagate.inject(carrier, context)
    except Exception as e:  # a propagator of the program
        log.debug("a message gets no trace context: %r", e)
    if not carrier:
        return message
    fields = {name: value for name, value in carrier.items() if _may_be_sent(name, value)}
    room = _room(message, more)
    if _size(fields) > room:
        fields = {name: fields[name] for name in (TRACEPARENT,) if name in fields}
        if _size(fields) > room:
            return message
    if not fields:
        return message
    sent = copy.copy(message)
    sent.properties = {**message.properties, **fields}
    return sent


def _may_be_sent(name: object, value: object) -> bool:
    if not isinstance(name, str) or not isinstance(value, str) or not name or not value:
        return False
    if name in SYSTEM_PROPERTIES or name == SHARDING_KEY:
        return False
    text = name + value
    if NAME_END in text or VALUE_END in text:
        return False
    return text.isascii() or text.isprintable()


def _size(properties: Mapping[str, str]) -> int:
    parts = [part for item in properties.items() for part in item]
    return sum(len(part.encode(errors="replace")) for part in parts) + len(parts)


def _room(message: Message, more: str | None) -> int:
    """Bytes that are left for properties of ours."""
    limit = MAX_PROPERTIES - RESERVED
    few = not message.properties and not isinstance(message.keys, list)
    if few and len(message.tags or "") + len(message.keys or "") + len(more or "") <= FEW:
        return limit - 4 * FEW
    return limit - _size(message.all_properties()) - len((more or "").encode(errors="replace"))
