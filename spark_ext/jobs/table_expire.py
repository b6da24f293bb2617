"""`pyrmq pipeline table expire`: removes old snapshots and the files that only they need."""

from __future__ import annotations

import click

from pyrmq.escape import escape
from pyrmq.tables.commit import Waiting
from pyrmq.tables.expire import ORPHAN_AGE, Expired, expire
from spark_ext.jobs import report
from spark_ext.jobs.command import run_alone
from spark_ext.jobs.table_service import Duration, catalog_options, opened

YEARS = 10 * 366 * 86400.0
AGE = Duration(YEARS, with_unit=True)
"""Of snapshots: `7` would be seven seconds, and they would be gone."""


def summary(name: str, done: Expired, dry_run: bool) -> str:
    """What a call removed."""
    would = "would remove" if dry_run else "removed"
    text = (
        f"{escape(name)}: {would} {report.number(done.snapshots, 'snapshot')} and "
        f"{report.number(done.files, 'file')}; {report.number(done.kept, 'snapshot')} stay"
    )
    if done.kept == 1:
        text += "s"
    if done.orphans:
        text += (
            f"\n{would} {report.number(done.orphans, 'file')} ({report.size(done.orphan_bytes)}) "
            "of writers that were killed"
        )
    return text


@click.command("expire")
@click.option("--table", "name", required=True, help="The table, such as mq.orders.")
@catalog_options
@click.option(
    "--older-than",
    "age",
    type=AGE,
    help="Snapshots of this age go: 12h, 7d [default: what the table says, or 5d].",
)
@click.option(
    "--keep",
    type=click.IntRange(1),
    help="Snapshots of each branch that stay however old [default: what the table says, or 10].",
)
@click.option(
    "--orphans-older-than",
    "orphan_age",
    type=Duration(YEARS),
    default=f"{ORPHAN_AGE // 86_400_000}d",
    show_default=True,
    help="Files of killed writers of this age go; 1h or more.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
def command(
    name: str,
    catalog: str,
    catalog_property: tuple[tuple[str, str], ...],
    wait: float,
    age: float | None,
    keep: int | None,
    orphan_age: float,
    dry_run: bool,
) -> None:
    """Remove old snapshots of a table, and the files that no other snapshot needs.

    What branches and tags need stays, and so does the snapshot that says how far the table goes.
    Files outside of the table's folders are never deleted."""
    there = opened(catalog, dict(catalog_property), Waiting(wait))
    table = there.load(name)
    with there.errors(f"snapshots of table {name} cannot be expired"):
        done = expire(
            table,
            age=None if age is None else int(age * 1000),
            keep=keep,
            orphan_age=int(orphan_age * 1000),
            dry_run=dry_run,
        )
    click.echo(summary(name, done, dry_run))


if __name__ == "__main__":
    run_alone(command)
