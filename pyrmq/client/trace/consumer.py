"""Observers of a consumer: a tracer with a producer of its own, and hooks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyrmq.client.checks import check_trace

if TYPE_CHECKING:
    from pyrmq.client.hooks import ConsumeMessageHook, Observer
    from pyrmq.client.instance import ClientInstance
    from pyrmq.client.namespaces import Namespace
    from pyrmq.client.telemetry import ClientTelemetry
    from pyrmq.client.trace.tracer import Tracer


def observer_of(
    group: str,
    hooks: Sequence[ConsumeMessageHook],
    tracer: Tracer | None,
    telemetry: ClientTelemetry | None = None,
    *,
    apart: bool = False,
) -> Observer | None:
    """None without trace, hooks and telemetry. Raises ClientError for an object that is not a
    hook."""
    if not hooks and telemetry is None:
        return tracer
    from pyrmq.client.hooks import ConsumeHooks

    return ConsumeHooks(group, hooks, tracer, telemetry, apart=apart)


def consumer_tracer(
    group: str,
    names: Namespace,
    trace: bool,
    topic: str,
    client: ClientInstance,
) -> Tracer | None:
    """The tracer of a consumer group; None without `trace`. It connects as `client` does."""
    check_trace(trace, topic)
    if not trace:
        return None
    # Imported here: most consumers need neither.
    from pyrmq.client.producer.producer import Producer
    from pyrmq.client.trace.tracer import Tracer, sender_group

    sender = Producer(
        sender_group(names.wire(group), "CONSUME"),
        send_timeout=5.0,
        **client.connecting,
    )
    return Tracer(sender, group, namespace=names.name, topic=topic)
