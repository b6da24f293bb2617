"""The report of several peers as one HTML page: nothing comes from outside, no script runs."""

from __future__ import annotations

import shlex
import statistics
from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape as xml

from pyrmq.bench.peers.markdown import commands, machine, settings
from pyrmq.bench.peers.report import COLUMNS, Column, Report, table
from pyrmq.bench.svg import Bar, bars
from pyrmq.escape import escape

STYLE = """
:root{--ink:#1f2328;--soft:#57606a;--grid:#d8dee4;--paper:#ffffff;--head:#f6f8fa}
@media (prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9198a1;--grid:#3d444d;
--paper:#0d1117;--head:#151b23}}
body{color:var(--ink);background:var(--paper);font:16px/1.5 system-ui,'DejaVu Sans',sans-serif;
max-width:64rem;margin:0 auto;padding:1rem}
h1{line-height:1.2}h2{margin-top:2.5rem;border-bottom:1px solid var(--grid)}
p.soft{color:var(--soft)}.wide{overflow-x:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.92rem}
td{white-space:nowrap}
th,td{border:1px solid var(--grid);padding:.3rem .6rem;text-align:right;vertical-align:top}
th{background:var(--head)}th:first-child,td:first-child{text-align:left}
table.pairs td,table.pairs th{text-align:left;white-space:normal}
code,pre{font:.85rem/1.4 ui-monospace,'DejaVu Sans Mono',monospace}
pre{background:var(--head);padding:.6rem;white-space:pre-wrap;overflow-wrap:anywhere}
svg.plot{max-width:100%;height:auto}nav a{margin-right:1rem}a{color:inherit}
"""
PLOTS = ("rate", "p99_us", "server_cpu_us")


def _safe(text: str) -> str:
    return xml(escape(text))


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], kind: str = "") -> str:
    head = "".join(f'<th scope="col">{_safe(text)}</th>' for text in heads)
    body = "".join(
        "<tr>" + "".join(f"<td>{_safe(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    label = f' class="{kind}"' if kind else ""
    top = f"<thead><tr>{head}</tr></thead>" if heads else ""
    return f'<div class="wide"><table{label}>{top}<tbody>{body}</tbody></table></div>\n'


def plot(report: Report, column: Column) -> str:
    """Bars of one figure, a group a load; "" if no peer has it."""
    groups: dict[str, list[Bar]] = {}
    colours = [peer.key for peer in report.peers]
    for load, peer, values in report.figures(column.name):
        middle = statistics.median(values)
        bar = Bar(
            report.title(peer),
            middle,
            min(values),
            max(values),
            column.text(middle),
            colours.index(peer),
        )
        groups.setdefault(load.text, []).append(bar)
    if not groups:
        return ""
    better = "more is better" if column.name == "rate" else "less is better"
    # Latencies of these brokers differ by powers of ten.
    log = column.name == "p99_us"
    return bars(f"{column.title} ({better})", column.unit, list(groups.items()), log=log)


def _sections(report: Report) -> Iterator[tuple[str, str, str]]:
    """Identifier, heading and content."""
    drawn = [plot(report, column) for column in COLUMNS if column.name in PLOTS]
    yield "plots", "At a glance", "".join(f"<figure>{svg}</figure>\n" for svg in drawn if svg)
    parts = []
    for load in report.loads:
        heads, rows = table(report, load)
        if rows:
            parts.append(f"<h3>{_safe(load.text)}</h3>\n{_table(heads, rows)}")
    explained = (
        "<p>A load reads connections x requests in flight on each, then the size of a body. Each "
        "figure is the median over the rounds; a ratio compares windows of one round, with the "
        "lowest and the highest behind it.</p>\n"
        "<p>Rate: messages a second. p50, p99 and p99.9: the time from a request to its answer, or "
        "with “send to receive” from the time a message was due to its consumer. A batch "
        "or a pull is one request. Server CPU a message: of all its threads. Requests are answered "
        "before the disk has a message, but where SYNC_FLUSH is named.</p>\n"
        "<p>The floor is the least that a broker can do: it writes what comes and answers, without "
        "queues and checks, in one thread. It does not read while it writes, so a broker with more "
        "threads can be faster where the disk is waited for.</p>\n"
    )
    yield "tables", "Figures", explained + "".join(parts)
    found = [
        (_name(p.title, p.version), p.settings or "defaults") for p in report.peers if not p.missing
    ]
    yield "peers", "Who was measured", _table(("Peer", "Settings"), found, "pairs")
    lost = [(p.title, p.missing) for p in report.peers if p.missing]
    lost += [(f"{report.title(f.peer)}, {f.load}", f.why) for f in report.failures]
    if lost:
        yield "missing", "Not measured", _table(("What", "Why, and what to do"), lost, "pairs")
    pairs = [*machine(report), *settings(report)]
    yield "machine", "Machine and settings", _table((), pairs, "pairs")
    if notes := report.notes():
        items = "".join(f"<li>{_safe(note)}</li>" for note in notes)
        yield "notes", "Notes", f"<ul>{items}</ul>\n"
    lines = "".join(
        f"<dt>{_safe(name)}</dt><dd><pre>{_safe(words)}</pre></dd>"
        for name, words in commands(report)
    )
    yield "commands", "Commands", f"<dl>{lines}</dl>\n"


def _name(title: str, version: str) -> str:
    return f"{title} {version}".strip()


def page(report: Report) -> str:
    """A document that is both HTML and well-formed XML."""
    sections = list(_sections(report))
    links = "".join(f'<a href="#{key}">{_safe(head)}</a>' for key, head, _ in sections)
    body = "".join(
        f'<section id="{key}"><h2>{_safe(head)}</h2>\n{content}</section>\n'
        for key, head, content in sections
    )
    said = "<p><strong>The run was interrupted.</strong></p>\n" if report.interrupted else ""
    return (
        '<!DOCTYPE html>\n<html xmlns="http://www.w3.org/1999/xhtml" lang="en"><head>'
        '<meta charset="utf-8"/><meta name="viewport" content="width=device-width"/>'
        '<meta name="color-scheme" content="light dark"/>'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'\"/>"
        f"<title>Message brokers in turns, {_safe(report.started[:10])}</title>"
        f"<style>{STYLE}</style></head>\n<body>\n"
        f"<h1>Message brokers on one machine, in turns</h1>\n"
        f'<p class="soft">Made by <code>{_safe(shlex.join(report.command))}</code>, '
        f"{_safe(report.started)}.</p>\n{said}<nav>{links}</nav>\n{body}</body></html>\n"
    )
