"""Message trace of consumers: a tracer with a producer of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyrmq.client.trace_options import check_trace, sender_group

if TYPE_CHECKING:
    from pyrmq.client.namespaces import Namespace
    from pyrmq.client.trace import Tracer


def consumer_tracer(
    group: str,
    names: Namespace,
    trace: bool,
    topic: str,
    *,
    namesrv: str | None,
    namespace_v2: str,
) -> Tracer | None:
    """What a consumer of a group records with; None unless it has `trace`."""
    check_trace(trace, topic)
    if not trace:
        return None
    # Imported here: most consumers need neither.
    from pyrmq.client.producer import Producer
    from pyrmq.client.trace import Tracer

    sender = Producer(
        sender_group(names.wire(group), "CONSUME"),
        namesrv=namesrv,
        namespace_v2=namespace_v2,
        send_timeout=5.0,
    )
    return Tracer(sender, group, namespace=names.name, topic=topic)
