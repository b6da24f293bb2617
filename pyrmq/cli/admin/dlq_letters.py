"""Dead letters on the command line: the options that select them, and how they are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from pyrmq.cli.admin.view import FORMS, time_of

if TYPE_CHECKING:
    from pyrmq.admin.dead_letters import DeadLetter, Selection

_OPTIONS = (
    click.option("--begin", metavar="TIME", help=f"They died from this time on: {FORMS}."),
    click.option("--end", metavar="TIME", help="They died before this time."),
    click.option("--key", help="They have this key."),
    click.option("-t", "--topic", help="They came from this topic."),
    click.option(
        "--id",
        "ids",
        multiple=True,
        metavar="ID",
        help="They have this unique id or offset id, or their original has it; may be repeated.",
    ),
)


class GroupName(click.ParamType[str]):
    """A group, or the name of its topic of dead letters."""

    name = "group"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from pyrmq.model.names import DLQ_PREFIX

        return str(value).removeprefix(DLQ_PREFIX)


def selecting(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options that select letters; the command gets a Selection as `selection`."""

    @wraps(command)
    def run(
        *args: Any,
        begin: str | None,
        end: str | None,
        key: str | None,
        topic: str | None,
        ids: tuple[str, ...],
        **rest: Any,
    ) -> None:
        from pyrmq.admin.dead_letters import Selection

        first, last = time_of("--begin", begin), time_of("--end", end)
        selection = Selection(first, last, key, topic, frozenset(ids))
        command(*args, selection=selection, **rest)

    for option in reversed(_OPTIONS):
        run = option(run)
    return run


def described(selection: Selection) -> str:
    """A selection in words."""
    from pyrmq.cli.admin.view import moment

    parts = []
    if selection.topic is not None:
        parts.append(f"of topic {selection.topic}")
    if selection.key is not None:
        parts.append(f"with key {selection.key}")
    if selection.ids:
        parts.append(f"with {len(selection.ids)} ids")
    if selection.begin is not None:
        parts.append(f"from {moment(selection.begin)} on")
    if selection.end is not None:
        parts.append(f"before {moment(selection.end)}")
    return " ".join(parts) or "all of them"


def letter_lines(letter: DeadLetter, resent: list[str] | None, most: int) -> Iterator[str]:
    """A letter for people. `resent`: what is known of earlier resends."""
    from pyrmq.cli.admin.txn_text import age, head_of, now_ms
    from pyrmq.cli.admin.view import moment

    stored = letter.message
    times = stored.reconsume_times
    many = "1 delivery" if times == 1 else f"{times} deliveries"
    yield f"{letter.id} of topic {letter.topic or '(not named)'}"
    died = stored.store_timestamp
    yield f"  died        {moment(died)} ({age(now_ms() - died)} ago), after {many}"
    yield (
        f"  stored      broker {stored.broker_name}, queue {stored.queue_id}, "
        f"offset {stored.queue_offset}"
    )
    yield f"  sent        {moment(stored.born_timestamp)} from {stored.born_host}"
    yield f"  unique id   {stored.properties.get('UNIQ_KEY', '-')}"
    yield f"  original    {letter.origin_id or '-'}"
    if letter.resent_from:
        yield f"  died again  it was resent from {letter.resent_from}"
    for line in resent or ():
        yield f"  resent      {line}"
    for name, value in sorted(stored.properties.items()):
        yield f"  {name}={value}"
    text, form = head_of(stored, most) if stored.body_error is None else (
        stored.raw_body[:most].hex(), "hex as stored"
    )  # fmt: skip
    yield f"  body of {len(stored.raw_body)} bytes, {form}: {text}"
