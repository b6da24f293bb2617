"""`pyrmq pipeline table compact`: few large files instead of many small ones."""

from __future__ import annotations

import re
from typing import Any

import click

from pyrmq.escape import escape
from pyrmq.tables.commit import Waiting
from pyrmq.tables.compact import FILES, TARGET, Compacted, compact
from spark_ext.jobs import report
from spark_ext.jobs.command import run_alone
from spark_ext.jobs.table_service import Stopping, catalog_options, opened

_UNITS = {"": 0, "k": 10, "m": 20, "g": 30}


class Size(click.ParamType):  # type: ignore[type-arg]
    """Bytes, or a number with k, m or g (powers of 1024)."""

    name = "size"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        if isinstance(value, int):
            return value
        found = re.fullmatch(r"([0-9]{1,12})([kmg]?)(?:i?b)?", str(value).strip().lower())
        if found is None:
            self.fail(f"{value!r} is no size: expected 67108864, 64M or 1G", param)
        return int(found[1]) << _UNITS[found[2]]


def summary(name: str, done: Compacted) -> str:
    """What a call did."""
    if done.removed:
        text = (
            f"{escape(name)}: {report.number(done.removed, 'file')} "
            f"({report.size(done.removed_bytes)}) replaced by {done.added} "
            f"({report.size(done.added_bytes)}), {report.number(done.rows, 'message')}, in "
            f"{report.number(done.snapshots, 'snapshot')}"
        )
    else:
        text = f"{escape(name)}: nothing to compact"
    for why, count in sorted(done.left.items()):
        text += f"\n{report.number(count, 'small file')} {'stays' if count == 1 else 'stay'}: {why}"
    return text


@click.command("compact")
@click.option("--table", "name", required=True, help="The table, such as mq.orders.")
@catalog_options
@click.option(
    "--target-size",
    "target",
    type=Size(),
    default=f"{TARGET >> 20}M",
    show_default=True,
    help="Of a new file; 1M or more.",
)
@click.option(
    "--smaller-than",
    "small",
    type=Size(),
    help="Files below this size are compacted [default: a quarter of --target-size].",
)
@click.option(
    "--min-files",
    "files",
    type=click.IntRange(2),
    default=FILES,
    show_default=True,
    help="A partition with fewer small files is left alone.",
)
def command(
    name: str,
    catalog: str,
    catalog_property: tuple[tuple[str, str], ...],
    wait: float,
    target: int,
    small: int | None,
    files: int,
) -> None:
    """Replace the small files of each partition by large ones.

    Messages, their order and the ends of the queues stay. Others may read and write meanwhile. The
    old files are deleted when their snapshots expire (`table expire`)."""
    with Stopping() as stopping:
        there = opened(catalog, dict(catalog_property), Waiting(wait, stopping.wait))
        table = there.load(name)
        with there.errors(f"table {name} cannot be compacted"):
            done = compact(table, target=target, small=small, files=files, stop=stopping.is_asked)
    click.echo(summary(name, done))


if __name__ == "__main__":
    run_alone(command)
