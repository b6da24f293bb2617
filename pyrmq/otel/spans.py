"""Spans of what clients do. [messaging spans of the semantic conventions]"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import trio
from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.instrumentation.utils import is_instrumentation_enabled
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
)

from pyrmq.client.telemetry import ClientInfo, Operation, Work
from pyrmq.model.record import ReceivedMessage
from pyrmq.otel import attributes as names
from pyrmq.otel.propagation import context_of, span_context_of, with_context

MAX_CREATED = 128
"""Messages of a batch that have a span of their own each. (A span has so many links.)"""
MAX_KNOWN = 65_536
"""Messages that `send_soon` took, or that loops have, whose spans are known at a time."""
INSIDE = frozenset({Work.PROCESS, Work.TRANSACTION, Work.EXECUTE, Work.CHECK})
"""Code of the program runs inside of their spans."""
KINDS = {
    Work.CREATE: SpanKind.PRODUCER,
    Work.SEND: SpanKind.PRODUCER,
    Work.REQUEST: SpanKind.PRODUCER,
    Work.PROCESS: SpanKind.CONSUMER,
    Work.CHECK: SpanKind.CONSUMER,
    Work.TRANSACTION: SpanKind.INTERNAL,
    Work.EXECUTE: SpanKind.INTERNAL,
}
"""Of the others: CLIENT."""
_ROOT = Context()


class SpanTelemetry:
    """A `Telemetry` that makes spans.

    link_only: the span of a single message is not a child of its sender's span, only linked to it.
    create_spans: each message of a batch has a span of its own.
    """

    def __init__(self, tracer: Tracer, *, link_only: bool, create_spans: bool) -> None:
        self._tracer = tracer
        self._link_only = link_only
        self._create_spans = create_spans
        self._clients: WeakKeyDictionary[ClientInfo, names.Attributes] = WeakKeyDictionary()
        self._created: dict[str, SpanContext] = {}
        """Of messages that wait in `send_soon`, by their ids."""
        self._loops: dict[tuple[object, ...], tuple[Span, Context]] = {}
        """Of messages that loops have."""
        self.active = True

    def opened(self, client: ClientInfo) -> None:
        self._clients[client] = names.of_client(client)

    def arrived(self, client: ClientInfo, messages: Sequence[ReceivedMessage], waits: bool) -> None:
        pass

    def begin(self, operation: Operation) -> None:
        if not self.active or not is_instrumentation_enabled():
            return
        work = operation.work
        if work is Work.SEND or work is Work.REQUEST or work is Work.CREATE:
            self._begin_send(operation)
        else:
            self._begin_other(operation)

    # Sending.

    def _begin_send(self, operation: Operation) -> None:
        if operation.keys:
            self._begin_soon(operation)
            return
        if operation.batch:
            self._begin_batch(operation)
            return
        message = operation.messages[0]
        given = span_context_of(context_of(message))
        if operation.work is Work.CREATE and (given is not None or not self._create_spans):
            if given is None:
                now = contexts.get_current()
                given = trace.get_current_span(now).get_span_context()
                operation.messages = [with_context(message, now)]
            operation.memo[self] = NonRecordingSpan(given), None
            return
        span = self._span(
            operation,
            links=[] if given is None else [Link(given)],
            kind=SpanKind.CLIENT if given is not None else None,
        )
        if given is None:
            context = trace.set_span_in_context(span)
            operation.messages = [with_context(message, context, operation.ordering_key)]
        operation.memo[self] = span, None

    def _begin_batch(self, operation: Operation) -> None:
        messages = operation.messages
        creates = self._create_spans and len(messages) <= MAX_CREATED
        sent, links, own = [], [], []
        for index, message in enumerate(messages):
            given = span_context_of(context_of(message))
            if given is None and creates:
                span = self._created_span(operation, message)
                given = span.get_span_context()
                message = with_context(message, trace.set_span_in_context(span))
                span.end()
            elif given is None:
                own.append(index)
            if given is not None and given.is_valid:
                links.append(Link(given))
            sent.append(message)
        span = self._span(operation, links=links, kind=None if own else SpanKind.CLIENT)
        context = trace.set_span_in_context(span)
        for index in own:
            sent[index] = with_context(messages[index], context)
        operation.messages = sent
        operation.memo[self] = span, None

    def _created_span(self, operation: Operation, message: Any) -> Span:
        said = dict(self._clients[operation.client])
        said[names.OPERATION] = said[names.OPERATION_TYPE] = Work.CREATE.value
        said[names.DESTINATION] = operation.topic
        name = f"{Work.CREATE.value} {operation.topic}"
        span = self._tracer.start_span(name, kind=SpanKind.PRODUCER, attributes=said)
        if span.is_recording():
            span.set_attributes(names.of_message(message))
        return span

    def _begin_soon(self, operation: Operation) -> None:
        """A batch of what `send_soon` took."""
        found = [self._created.pop(key, None) for key in operation.keys]
        links = [Link(one) for one in found if one is not None]
        span = self._span(operation, links=links, kind=SpanKind.CLIENT, context=_ROOT)
        operation.memo[self] = span, None

    # Receiving and the rest.

    def _begin_other(self, operation: Operation) -> None:
        work, messages = operation.work, operation.messages
        found = [(message, context_of(message)) for message in messages if _is_received(message)]
        links = [
            Link(sender, {names.MESSAGE_ID: names.text(message.msg_id)})
            for message, context in found
            if (sender := span_context_of(context)) is not None
        ]
        context = None
        if work is Work.PROCESS or work is Work.CHECK:
            context = _ROOT
            if len(found) == 1 and not self._link_only:
                context = found[0][1]
        elif work is Work.END and found and span_context_of(contexts.get_current()) is None:
            context = found[0][1]  # the answer to a check
        span = self._span(operation, links=links, context=context)
        token = None
        if work in INSIDE:
            base = context if context is not None else contexts.get_current()
            inside = trace.set_span_in_context(span, base)
            if operation.apart:
                _keep(self._loops, place_of(messages[0]), (span, inside))
            else:
                token = contexts.attach(inside)
        operation.memo[self] = span, token

    def _span(
        self,
        operation: Operation,
        *,
        links: Sequence[Link],
        kind: SpanKind | None = None,
        context: Context | None = None,
    ) -> Span:
        work = operation.work
        said = dict(self._clients[operation.client])
        name = said[names.OPERATION] = names.operation_name(operation)
        operation_type = names.TYPES.get(work)
        if operation_type is not None:
            said[names.OPERATION_TYPE] = operation_type
        if operation.topic:
            said[names.DESTINATION] = operation.topic
            name = f"{name} {operation.topic}"
        if operation.batch:
            said[names.COUNT] = operation.count
        if operation.messages and _is_received(operation.messages[0]):
            names.add_address(said, operation.messages[0].store_host)
        began = None
        if work is Work.RECEIVE:
            began = time.time_ns() - _elapsed_ns(operation)
        span = self._tracer.start_span(
            name,
            context=context,
            kind=kind or KINDS.get(work, SpanKind.CLIENT),
            attributes=said,
            links=links,
            start_time=began,
            record_exception=False,
            set_status_on_exception=False,
        )
        if operation.messages and not operation.batch and span.is_recording():
            # What no sampler asks for costs nothing for spans that are not sampled.
            span.set_attributes(names.of_message(operation.messages[0], operation.ordering_key))
        return span

    # The end.

    def end(self, operation: Operation) -> None:
        span, token = operation.memo.pop(self, (None, None))
        if span is None:
            return
        if token is not None:
            contexts.detach(token)
        if operation.apart and operation.work is Work.PROCESS:
            self._loops.pop(place_of(operation.messages[0]), None)
        if operation.work is Work.CREATE and operation.keys and operation.keys[0]:
            created = span.get_span_context()
            if created.is_valid:
                _keep(self._created, operation.keys[0], created)
            span.set_attribute(names.MESSAGE_ID, operation.keys[0])
        if span.is_recording():
            _say_result(span, operation)
        span.end()

    def forget(self, operation: Operation) -> None:
        operation.memo.pop(self, None)
        if operation.work is Work.PROCESS:
            self._loops.pop(place_of(operation.messages[0]), None)

    def in_loop(self, message: ReceivedMessage) -> tuple[Span, Context] | None:
        """The span of a message that a loop has, and the context inside of it."""
        return self._loops.get(place_of(message))

    def processing(self, message: ReceivedMessage, group: str) -> tuple[Span, Context]:
        """A new span of a message that the program processes, and the context inside of it."""
        context = context_of(message)
        sender = span_context_of(context)
        parent = contexts.get_current()
        if span_context_of(parent) is None and not self._link_only:
            parent = context
        said: names.Attributes = {
            names.SYSTEM: "rocketmq",
            names.OPERATION: Work.PROCESS.value,
            names.OPERATION_TYPE: Work.PROCESS.value,
            names.DESTINATION: message.topic,
            **names.of_message(message),
        }
        if group:
            said[names.CONSUMER_GROUP] = group
        span = self._tracer.start_span(
            f"process {message.topic}",
            context=parent,
            kind=SpanKind.CONSUMER,
            attributes=said,
            links=[]
            if sender is None
            else [Link(sender, {names.MESSAGE_ID: names.text(message.msg_id)})],
        )
        return span, trace.set_span_in_context(span, parent)


def _say_result(span: Span, operation: Operation) -> None:
    for name, value in names.of_result(operation).items():
        span.set_attribute(name, value)
    if operation.work is Work.REQUEST and isinstance(operation.result, ReceivedMessage):
        reply = span_context_of(context_of(operation.result))
        if reply is not None:
            span.add_link(reply, {names.MESSAGE_ID: names.text(operation.result.msg_id)})
    kind, error = names.error_type(operation), names.error_of(operation)
    if kind is None or (error is None and _has_failed(span)):
        return
    fail(span, kind, error)


def _has_failed(span: Span) -> bool:
    """Whether the program has said why, in a block of `processing`."""
    status = getattr(span, "status", None)
    return status is not None and status.status_code is StatusCode.ERROR


def fail(span: Span, kind: str, error: BaseException | None) -> None:
    """The span has failed; `kind` is error.type."""
    span.set_attribute(names.ERROR, kind)
    text = kind
    if isinstance(error, Exception):
        span.record_exception(error)
        text = names.text(f"{type(error).__name__}: {error}")
    span.set_status(Status(StatusCode.ERROR, text))


def _is_received(message: object) -> bool:
    return isinstance(message, ReceivedMessage)


def _elapsed_ns(operation: Operation) -> int:
    return max(round((trio.current_time() - operation.began) * 1e9), 0)


def place_of(message: ReceivedMessage) -> tuple[object, ...]:
    """What tells a message from others."""
    return id(message), message.broker_name, message.queue_id, message.queue_offset


def _keep(table: dict[Any, Any], key: object, value: object) -> None:
    table[key] = value
    if len(table) > MAX_KNOWN:  # what never ended, the oldest first
        del table[next(iter(table))]
