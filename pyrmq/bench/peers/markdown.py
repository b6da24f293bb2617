"""The report of several peers as Markdown, for docs/benchmarks.md."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from pyrmq.bench.peers.report import Report, table
from pyrmq.escape import escape


def _safe(text: str) -> str:
    """Texts of others begin no markup: no HTML, link, code or cell."""
    return re.sub(r"([\\`\[|])", r"\\\1", escape(text)).replace("<", "&lt;")


def _code(text: str) -> str:
    """As code, whatever backticks it has."""
    runs = re.findall("`+", text)
    marks = "`" * (max(map(len, runs)) + 1 if runs else 1)
    blank = " " if runs else ""
    return f"{marks}{blank}{escape(text)}{blank}{marks}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(map(_safe, row))} |" for row in (heads, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(heads), *lines[1:]])


def settings(report: Report) -> list[tuple[str, str]]:
    """What was measured how, as pairs for a table."""
    return [
        ("started", report.started),
        ("flush", report.flush),
        ("a window", f"{report.seconds:g} s behind {report.warmup:g} s of warm-up"),
        ("rounds", str(report.rounds)),
        ("load before the first window of a JVM", f"{report.prepare:g} s of each kind"),
        ("heap of a JVM", report.heap),
    ]


def machine(report: Report) -> list[tuple[str, str]]:
    """Where it ran; what is not known is left out."""
    e = report.environment
    pairs = [
        ("processor", f"{e.cpu} ({e.machine}), {e.cores} cores"),
        ("memory", f"{e.memory_bytes / 2**30:.1f} GiB" if e.memory_bytes else ""),
        ("kernel", e.kernel),
        ("disk", " ".join(filter(None, (e.disk, e.disk_path)))),
        ("virtual", e.virtual),
        ("load average at the start", f"{e.load_average:.2g}"),
        ("Python", e.python),
        ("pyrmq", e.pyrmq),
    ]
    return [(name, text) for name, text in pairs if text]


def _rounds(report: Report) -> str:
    return "1 round" if report.rounds == 1 else f"{report.rounds} rounds"


def commands(report: Report) -> list[tuple[str, str]]:
    """Every server's, and each client's of the first window of a load."""
    lines = [(peer.title, shlex.join(peer.command)) for peer in report.peers if peer.command]
    for load in report.loads:
        for peer in report.measured(load.name):
            window = report.of(load.name, peer)[0]
            lines.append((f"{report.title(peer)}, {load.name}", shlex.join(window.command)))
    return lines


def markdown(report: Report) -> str:
    """Tables by load, then the machine, the settings and what was not measured."""
    parts = []
    versions = [f"{p.title} {p.version}".strip() for p in report.peers if not p.missing]
    parts.append(
        f"One run of {_code(shlex.join(report.command))} on {_safe(report.started[:10])}: "
        f"{', '.join(map(_safe, versions))}, {_safe(report.flush)}, {_rounds(report)} of "
        f"{report.seconds:g} s in turns (median; lowest to highest)."
    )
    if report.interrupted:
        parts.append("The run was interrupted: these are the windows until then.")
    for load in report.loads:
        heads, rows = table(report, load)
        if rows:
            parts.append(_table([load.text, *heads[1:]], rows))
    pairs = [*machine(report), *settings(report)]
    parts.append(_table(("Machine and settings", ""), pairs))
    missing = [f"- {_safe(p.title)}: {_safe(p.missing)}" for p in report.peers if p.missing]
    missing += [
        f"- {_safe(report.title(f.peer))}, {_safe(f.load)}: {_safe(f.why)}" for f in report.failures
    ]
    if missing:
        parts.append("\n".join(["Not measured:", *missing]))
    if notes := report.notes():
        parts.append("\n".join(["Notes:", *(f"- {_safe(note)}" for note in notes)]))
    return "\n\n".join(parts) + "\n"
