"""`pyrmq admin timer …`: timer messages that wait."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from pyrmq.cli.admin.lazy import Group
from pyrmq.cli.admin.session import Session, session, where
from pyrmq.model.names import REVIVE_PREFIX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyrmq.admin.api import Admin
    from pyrmq.admin.brokers import OfReplica
    from pyrmq.admin.timers import TimerFigures
    from pyrmq.cli.admin.view import View

WIDTH = 40
"""Characters of the longest bar."""
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_PART = re.compile(r"([0-9]{1,9})([smhd]?)", re.ASCII)


@click.group(cls=Group)
def timer() -> None:
    """Timer messages: how many wait, of which topics, and when they are due."""


@timer.command()
@session(watch=True)
@where
@click.option(
    "--bounds",
    metavar="TIMES",
    help="Ends of the bars, such as 10s,5m,1h,2d.  [default: 10s to 2d in nine steps]",
)
def show(session: Session, broker: str | None, cluster: str | None, bounds: str | None) -> None:
    """Show when waiting messages are due, as a histogram of the masters together."""
    from pyrmq.admin.timers import span_of, sum_of_bars
    from pyrmq.cli.admin.view import Column, View
    from pyrmq.model.timer_figures import BOUNDS

    ends = BOUNDS if bounds is None else _parsed(bounds)

    async def work(admin: Admin) -> View:
        found = await admin.timers.figures(broker=broker, cluster=cluster, bounds=ends)
        answered = _answered(found)
        masters = {n: f for n, (of, f) in answered.items() if broker or not of.replica.broker_id}
        bars = sum_of_bars(list(masters.values()))
        rows = [(span_of(bars, i, duration), bar.count) for i, bar in enumerate(bars)]
        most = max((count for _, count in rows), default=0)
        columns = (
            Column("DUE", lambda r: r[0]),
            Column("MESSAGES", lambda r: r[1], right=True),
            Column("", lambda r: bar_text(r[1], most)),
        )
        total = sum(f.total for f in masters.values())
        brokers = "1 broker" if len(masters) == 1 else f"{len(masters)} brokers"
        notes = [f"{total} messages wait in {brokers}" if answered else ""]
        notes += [_state(address, f) for address, (_, f) in answered.items()]
        failed = [of.outcome.problem for of in found if of.outcome.error]
        return View(
            {address: f for address, (_, f) in answered.items()},
            rows,
            columns,
            [note for note in notes if note],
            "" if failed or answered else "no broker has timers",
            failed,
            all_failed=not answered,
        )

    session.report(work)


@timer.command()
@session(watch=True)
@where
def topics(session: Session, broker: str | None, cluster: str | None) -> None:
    """Show how many messages of each topic wait, by broker."""
    from pyrmq.cli.admin.view import Column, View, moment

    async def work(admin: Admin) -> View:
        found = await admin.timers.figures(broker=broker, cluster=cluster)
        answered = _answered(found)
        failed = [of.outcome.problem for of in found if of.outcome.error]
        rows = [(address, row) for address, (_, f) in answered.items() for row in f.topics]
        columns = (
            Column("BROKER", lambda r: r[0]),
            Column("TOPIC", lambda r: r[1].topic),
            Column("MESSAGES", lambda r: r[1].count, right=True),
            Column("CHANGED", lambda r: moment(r[1].changed)),
        )
        return View(
            {address: f.topics for address, (_, f) in answered.items()},
            rows,
            columns,
            (),
            "" if failed else "no message waits",
            failed,
            all_failed=not answered,
        )

    session.report(work)


def _answered(
    found: Sequence[OfReplica[TimerFigures]],
) -> dict[str, tuple[OfReplica[TimerFigures], TimerFigures]]:
    return {
        of.replica.address: (of, of.outcome.value) for of in found if of.outcome.value is not None
    }


def _state(address: str, figures: TimerFigures) -> str:
    of_pops = sum(t.count for t in figures.topics if t.topic.startswith(REVIVE_PREFIX))
    pops = f" ({of_pops} of them are records of POP consumers)" if of_pops else ""
    text = (
        f"{address}: {figures.total} wait{pops}, delivered up to {figures.read_behind} s ago, "
        f"{figures.offset_behind} not in the wheel yet"
    )
    return text if figures.bars else f"{text}; it does not say when they are due"


def bar_text(count: int, most: int) -> str:
    """A bar whose length is in proportion; what is there at all is seen."""
    return "" if not count else "#" * max(round(count / most * WIDTH), 1)


def duration(seconds: int) -> str:
    """`90` as `90s`, `7200` as `2h`: the largest unit that divides it."""
    unit = next(u for u in reversed(_UNITS) if seconds % _UNITS[u] == 0)
    return f"{seconds // _UNITS[unit]}{unit}"


def _parsed(text: str) -> list[int]:
    from pyrmq.errors import InvalidParameterError
    from pyrmq.model.timer_figures import check_bounds

    parts = [_PART.fullmatch(part) for part in text.split(",")]
    if None in parts:
        raise click.BadParameter(
            f"{text!r}: times such as 10s,5m,1h,2d expected", param_hint="--bounds"
        )
    try:
        return check_bounds([int(p[1]) * _UNITS[p[2] or "s"] for p in parts if p])
    except InvalidParameterError as e:
        raise click.BadParameter(str(e), param_hint="--bounds") from None
