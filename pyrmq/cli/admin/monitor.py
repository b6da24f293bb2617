"""`pyrmq admin monitor …`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pyrmq.cli.admin.lazy import Group
from pyrmq.cli.admin.session import FAILED, PARTLY, Session, session

if TYPE_CHECKING:
    from pyrmq.admin.api import Admin
    from pyrmq.admin.monitoring import Report, Settings
    from pyrmq.cli.admin.view import View

_FILE = click.Path(dir_okay=False)
_OUTPUT = click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]),
                       default="table", show_default=True,
                       help="For people, or for programs.")  # fmt: skip
_DEBUG = click.option("--debug", is_flag=True, help="Show where an error comes from.")


@click.group(cls=Group)
def monitor() -> None:
    """Watch groups and servers, and raise alarms."""


@monitor.command()
@session()
@click.option("--config", type=_FILE, metavar="FILE", help="Thresholds, and where alarms go.")
@click.option("--once", is_flag=True, help="One round, now: show what is too high, tell no sink.")
def run(session: Session, config: str | None, once: bool) -> None:
    """Ask again and again, and raise alarms, until SIGINT or SIGTERM.

    Lines about rounds and alarms go to stderr, those of `json` sinks to stdout. With --once
    figures that need two rounds (what came since the round before) are not known.
    """
    from pyrmq.admin.monitoring import Settings

    if session.output != "table" and not once:
        raise click.UsageError("--output is for --once: lines of JSON are of a sink of that type")
    settings = _read(session, config) if config else Settings()
    if once:
        _once(session, settings)
        return

    async def work(admin: Admin) -> None:
        from pyrmq.admin.monitoring import Monitor
        from pyrmq.admin.monitoring.monitor import run_until_signal
        from pyrmq.admin.monitoring.rounds import to_stderr

        await run_until_signal(Monitor.of(admin, settings, write=to_stderr))

    session.run(work, progress=False)


def _once(session: Session, settings: Settings) -> None:
    from pyrmq.admin.monitoring.alarms import number
    from pyrmq.cli.admin.view import Column, View

    async def work(admin: Admin) -> Report:
        from pyrmq.admin.monitoring import Monitor
        from pyrmq.admin.monitoring.watchers import watchers

        found = watchers(admin, settings)
        return await Monitor(settings, found, (), write=lambda _: None).round()

    report = session.run(work)
    rows: list[dict[str, Any]] = [
        {
            "metric": s.subject.metric,
            "group": s.subject.group or None,
            "topic": s.subject.topic or None,
            "server": s.subject.server or None,
            "value": s.value,
            "raise": settings.threshold(s.subject).raise_at,
            "detail": s.detail or None,
            "partial": s.partial,
        }
        for s in sorted(report.high, key=lambda s: s.subject)
    ]
    columns = (
        Column("FIGURE", "metric"), Column("GROUP", "group"), Column("TOPIC", "topic"),
        Column("SERVER", "server"),
        Column("VALUE", lambda r: number(r["value"]), right=True, style="red"),
        Column("RAISED AT", lambda r: number(r["raise"]), right=True), Column("", "detail"),
    )  # fmt: skip
    data = {
        "asked": report.asked,
        "failed": report.failed,
        "left": report.left,
        "seconds": report.seconds,
        "high": rows,
        "problems": report.problems,
    }
    notes = [f"{report.asked} asked, {report.failed} failed, {report.seconds:.2f} s"]
    session.show(View(data, rows, columns, notes, empty="no figure is too high"))
    session.partly(report.problems, all_failed=not report.figures)


@monitor.command()
@click.argument("file", type=_FILE)
@_DEBUG
def check(file: str, debug: bool) -> None:
    """Say whether a file of thresholds is right."""
    from pyrmq.escape import escape

    settings = _read(Session("", "table", None, debug), file)
    sinks = ", ".join(s.name for s in settings.sinks)
    click.echo(
        f"{escape(file)} is right: every {settings.rounds.interval:g} s, "
        f"{len(settings.overrides)} overrides, alarms to {escape(sinks)}"
    )


@monitor.command()
@click.argument("file", type=_FILE)
@_OUTPUT
@_DEBUG
def test(file: str, output: str, debug: bool) -> None:
    """Send a test alarm to each sink of a file, and say which of them worked."""
    import trio

    from pyrmq.admin.monitoring.rounds import to_stderr
    from pyrmq.admin.monitoring.sinks import try_sinks

    session = Session("", output, None, debug)
    settings = _read(session, file)
    # With -o, stdout has the answer alone.
    lines = {} if output == "table" else {"json_lines": to_stderr}
    try:
        found = trio.run(lambda: try_sinks(settings, **lines))
    except BaseException as e:
        session.fail(e)
    session.show(_tried(found))
    if not all(t.ok for t in found):
        raise click.exceptions.Exit(PARTLY if any(t.ok for t in found) else FAILED)


def _tried(found: list[Any]) -> View:
    from pyrmq.cli.admin.view import Column, View

    data = [{"sink": t.sink, "ok": t.ok, "error": t.error} for t in found]
    columns = (
        Column("SINK", "sink"),
        Column("RESULT", lambda r: "ok" if r["ok"] else "failed",
               style=lambda r: "green" if r["ok"] else "red"),
        Column("", "error"),
    )  # fmt: skip
    return View(data, data, columns)


@monitor.command()
@click.argument("file", type=_FILE, required=False)
@_DEBUG
def init(file: str | None, debug: bool) -> None:
    """Write a file with all keys, their defaults and what they mean; to stdout without FILE."""
    from pyrmq.admin.monitoring.settings import example, write_example
    from pyrmq.cli.admin.session import printing

    if file is None:
        with printing():
            click.echo(example(), nl=False)
        return
    try:
        write_example(file)
    except BaseException as e:
        Session("", "table", None, debug).fail(e)


def _read(session: Session, path: str) -> Settings:
    from pyrmq.admin.monitoring import read

    try:
        return read(path)
    except BaseException as e:
        session.fail(e)
