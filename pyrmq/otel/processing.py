"""The span of a message, around a block of the program."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import context as contexts
from opentelemetry.trace import INVALID_SPAN, Span

from pyrmq.client.checks import check_kind
from pyrmq.model.record import ReceivedMessage
from pyrmq.otel.instrumentor import spans_now
from pyrmq.otel.spans import fail


@contextmanager
def processing(message: ReceivedMessage, *, group: str = "") -> Iterator[Span]:
    """Runs a block inside of the `process` span of a message.

    In a loop over a consumer that is the span that the loop has begun; it ends when the message is
    acknowledged. A message that was polled or received gets a new span, which ends with the block;
    `group` is its consumer group. Without `instrument()` the block just runs.

        async for message in consumer:
            with processing(message):
                ...

    Raises ClientError if it is not a received message.
    """
    check_kind("the message", message, (ReceivedMessage,), "a ReceivedMessage")
    spans = spans_now()
    if spans is None:
        yield INVALID_SPAN
        return
    known = spans.in_loop(message)
    span, inside = known or spans.processing(message, group)
    token = contexts.attach(inside)
    try:
        yield span
    except Exception as e:
        fail(span, type(e).__qualname__, e)
        raise
    finally:
        contexts.detach(token)
        if known is None:
            span.end()
