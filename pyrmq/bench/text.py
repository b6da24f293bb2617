"""A result as text, for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyrmq.bench.options import RECEIVING
from pyrmq.bench.result import Latency, Result, ServerUsage, Verify
from pyrmq.escape import escape

NAMES = {
    "request": "request to answer",
    "end_to_end": "send to receive",
    "commit": "END_TRANSACTION",
    "late": "behind the delay",
    "refused": "request to refusal",
    "ack": "ACK_MESSAGE",
}


def report(result: Result) -> str:
    """Several lines, without a line end behind the last."""
    return "\n".join(_lines(result))


def micros(us: float) -> str:
    """A time as it is read best."""
    if us >= 1e6:
        return f"{us / 1e6:.2f} s"
    return f"{us / 1e3:.2f} ms" if us >= 1e3 else f"{us:.0f} us"


def size(number: float) -> str:
    """Bytes as it is read best."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024 or unit == "GiB":
            break
        number /= 1024
    return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"


def _lines(r: Result) -> Iterator[str]:
    verb = "received" if r.load in RECEIVING else "sent" if r.load == "oneway" else "acknowledged"
    loop = "closed loop: latencies from when a request was sent"
    if r.target_rate is not None:
        loop = f"open loop at {r.target_rate:,.0f} messages/s: latencies from when one was due"
    if r.latency or r.target_rate is not None:
        yield f"{r.load}, {loop}"
    else:
        yield f"{r.load}, closed loop"
    yield (
        f"{verb:<12} {r.messages:,} messages in {r.seconds:.2f} s: {r.rate:,.0f} messages/s, "
        f"{r.request_rate:,.0f} requests/s, {size(r.byte_rate)}/s of bodies"
    )
    for kind, latency in r.latency.items():
        yield from _latency(kind, latency)
    for error in r.errors:
        code = f" ({error.code})" if error.code is not None else ""
        first = f": {escape(error.first)}" if error.first else ""
        yield f"error        {error.count:,} x {escape(error.name)}{code}{first}"
    if r.verify is not None:
        yield from _verify(r.verify)
    if r.connections.lost:
        yield f"connections  {r.connections.lost} lost, {r.connections.reconnected} opened again"
    g = r.generator
    yield f"generator    {g.cpu_seconds:.2f} s CPU, its busiest thread at {g.busy:.0%} of a core"
    for server in r.servers:
        yield _server(server)
    for warning in r.warnings:
        yield f"WARNING: {escape(warning)}"


def _latency(kind: str, latency: Latency) -> Iterator[str]:
    if latency.count:
        parts = [("p50", latency.p50), ("p90", latency.p90), ("p99", latency.p99)]
        parts += [("p99.9", latency.p999), ("max", latency.max)]
        text = ", ".join(f"{name} {micros(value)}" for name, value in parts)
        yield f"latency      {NAMES.get(kind, escape(kind))}: {text}"


def _verify(v: Verify) -> Iterator[str]:
    text = f"verified     {v.sent:,} sent, {v.acknowledged:,} acknowledged"
    if v.refused or v.unknown:
        text += f", {v.refused:,} refused, {v.unknown:,} without an answer"
    yield text
    if not v.consumed:
        return
    text = f"             {v.received:,} received, {v.lost:,} lost, {v.twice:,} twice"
    text += f", {v.out_of_order:,} out of order"
    if v.unknown_received:
        text += f"; {v.unknown_received:,} received of those without an answer"
    if v.refused_received:
        text += f"; {v.refused_received:,} received of those that were refused"
    if v.foreign:
        text += f"; {v.foreign:,} of others"
    yield text


def _server(s: ServerUsage) -> str:
    text = f"server       {escape(s.name)} ({s.pid}): {s.cpu_seconds:.2f} s CPU"
    if s.cpu_us_per_message is not None:
        text += f", {s.cpu_us_per_message:.1f} us a message"
    text += f", {size(s.rss_bytes)} resident"
    if s.written_bytes is not None:
        text += f", {size(s.written_bytes)} written"
    return text + (" (ended)" if s.ended else "")


def progress(snapshot: dict[str, Any]) -> str:
    """One line of a run that goes on."""
    parts = [f"{snapshot['seconds']:.0f} s"]
    if snapshot["state"] != "measuring":
        parts.append(snapshot["state"])
    for key, verb in (("produced", "sent"), ("consumed", "received")):
        if snapshot[key]:
            parts.append(f"{snapshot[f'{key}_rate']:,.0f}/s {verb}")
    for kind, (p50, p99, _) in snapshot["latency"].items():
        parts.append(f"{kind.replace('_', ' ')} p50 {micros(p50)} p99 {micros(p99)}")
    if snapshot["errors"]:
        parts.append(f"{snapshot['errors']:,} errors")
    if backlog := snapshot["behind"] + snapshot["unreceived"]:
        parts.append(f"{backlog:,} behind")
    return ", ".join(parts)
