"""Resets of offsets: what the form asks for, its preview, and the move that was shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyrmq.admin.api import Admin
from pyrmq.admin.moments import FORMS, time_of
from pyrmq.admin.offset_moves import START, ResetPreview
from pyrmq.admin.offsets import END
from pyrmq.errors import ClientError, ConfigError

MOST_QUEUES = 900
"""Most queues that one form moves: each is a field of it."""
_FIELD = re.compile(r"([0-9]{1,5}):([0-9]{1,19}):(.{1,255})", re.ASCII | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Goal:
    """Where a group is moved to. time_ms: START, END, or ms since 1970."""

    topic: str
    to: str
    """`earliest`, `latest` or `time`."""
    when: str
    """The time as it was typed."""
    broker_name: str | None
    time_ms: int

    @property
    def text(self) -> str:
        where = f" on broker {self.broker_name}" if self.broker_name else ""
        return f"{self.when if self.to == 'time' else self.to} in topic {self.topic}{where}"


def goal(form: Mapping[str, str], now: int | None = None) -> Goal:
    """Reads a form. ClientError says what is wrong with it."""
    topic, to, when = (str(form.get(k, "")).strip() for k in ("topic", "to", "time"))
    broker = str(form.get("broker", "")).strip() or None
    if not topic:
        raise ClientError("choose the topic")
    if to == "earliest":
        return Goal(topic, to, "", broker, START)
    if to == "latest":
        return Goal(topic, to, "", broker, END)
    if to != "time":
        raise ClientError("choose where to: earliest, latest or a time")
    return Goal(topic, to, when, broker, moment(when, now))


def moment(text: str, now: int | None = None) -> int:
    """A time as ms since 1970, as `pyrmq admin` takes it; never START, nor END. ClientError."""
    if not text:
        raise ClientError(f"a time is missing: write {FORMS}")
    try:
        return max(time_of(text, now), 1)
    except ConfigError as e:
        raise ClientError(str(e)) from None


async def preview(admin: Admin, group: str, wanted: Goal) -> ResetPreview:
    """What the move would do. ClientError, also for more queues than a form has room for."""
    plan = await admin.offsets.preview(
        group, wanted.topic, time_ms=wanted.time_ms, broker_name=wanted.broker_name
    )
    if len(plan.queues) > MOST_QUEUES:
        raise ClientError(
            f"topic {wanted.topic} has {len(plan.queues)} queues, a form moves at most "
            f"{MOST_QUEUES}: choose one broker, or use pyrmq admin offset reset"
        )
    return plan


def fields(plan: ResetPreview) -> list[str]:
    """The queues of a preview and their goals, as fields of the form that confirms it."""
    return [f"{q.queue.queue_id}:{q.offset}:{q.queue.broker_name}" for q in plan.queues]


def as_shown(plan: ResetPreview, shown: list[str]) -> ResetPreview:
    """The preview of now, with the goals that the user has seen; a message that was deleted since
    then is none. ClientError if the queues are others by now, or a goal lies behind the end of its
    queue: then the user looks again."""
    goals: dict[tuple[str, int], int] = {}
    for field in shown:
        found = _FIELD.fullmatch(field)
        if found is None:
            raise ClientError("the form is damaged: make the preview again")
        goals[found[3], int(found[1])] = int(found[2])
    known = {(q.queue.broker_name, q.queue.queue_id): q for q in plan.queues}
    if known.keys() != goals.keys() or any(
        offset > (known[at].broker_offset or 0) for at, offset in goals.items()
    ):
        raise ClientError(
            "the queues have changed since the preview, nothing was moved: make the preview again"
        )
    return replace(
        plan,
        queues=[replace(row, offset=max(goals[at], row.first or 0)) for at, row in known.items()],
    )
