"""`pyrmq admin export …`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import click

from pyrmq.cli.admin.lazy import Group
from pyrmq.cli.admin.session import Session, session, where

if TYPE_CHECKING:
    from pathlib import Path

    from pyrmq.admin.api import Admin


@click.group(cls=Group)
def export() -> None:
    """Files that say what a cluster is."""


_folder = click.option(
    "--folder", default=".", show_default=True, metavar="FOLDER", help="Where the file goes."
)
_cluster = click.option("-c", "--cluster", required=True, metavar="NAME", help="The cluster.")


def _told(line: str) -> None:
    from pyrmq.escape import escape

    click.echo(escape(line), err=True)


def _save(
    session: Session, folder: str, name: str, ask: Callable[[Admin], Awaitable[dict[str, Any]]]
) -> None:
    from pyrmq.admin.exports import save
    from pyrmq.cli.admin.view import fields

    async def work(admin: Admin) -> Path:
        return await save(await ask(admin), folder, name)

    session.show(fields({"file": str(session.run(work))}))


@export.command()
@session()
@_cluster
@_folder
def configs(session: Session, cluster: str, folder: str) -> None:
    """Write the configuration of brokers to configs.json."""
    _save(session, folder, "configs.json", lambda a: a.exports.configs(cluster, told=_told))


@export.command()
@session()
@_cluster
@_folder
def metrics(session: Session, cluster: str, folder: str) -> None:
    """Write figures of brokers to metrics.json."""
    _save(session, folder, "metrics.json", lambda a: a.exports.metrics(cluster, told=_told))


@export.command()
@session()
@where
@_folder
@click.option(
    "--only", type=click.Choice(["topics", "groups"], case_sensitive=False), help="One kind alone."
)
@click.option("--special", is_flag=True, help="Retry and dead-letter topics as well.")
def metadata(
    session: Session,
    broker: str | None,
    cluster: str | None,
    folder: str,
    only: str | None,
    special: bool,
) -> None:
    """Write topics and groups to metadata.json, topic.json or subscriptionGroup.json."""
    name = {"topics": "topic", "groups": "subscriptionGroup"}.get(only or "", "metadata")
    _save(
        session,
        folder,
        f"{name}.json",
        lambda a: a.exports.metadata(
            broker=broker,
            cluster=cluster,
            topics=only != "groups",
            groups=only != "topics",
            special=special,
            told=_told,
        ),
    )


@export.command("cluster")
@session()
@_cluster
@_folder
def cluster_(session: Session, cluster: str, folder: str) -> None:
    """Write a cluster to cluster.yaml, for `cluster diff` and `apply`.

    It has configuration, topics, groups, users and access lists. Passwords are left out.
    """
    from pyrmq.admin.exports import save_text
    from pyrmq.cli.admin.view import fields

    async def work(admin: Admin) -> Path:
        found = await admin.clusters.describe(cluster)
        if found.users:
            _told("passwords of users are not in the file")
        return await save_text(found.to_text(), folder, "cluster.yaml")

    session.show(fields({"file": str(session.run(work))}))


@export.command("pop-records")
@session(destroys=True)
@where
def pop_records(session: Session, broker: str | None, cluster: str | None) -> None:
    """Have Apache RocketMQ's brokers give back what RocksDB has of popped messages."""
    session.confirm(f"Give records of popped messages back on {cluster or broker}?")
    outcomes = session.run(
        lambda admin: admin.rocksdb.export_pop_records(broker=broker, cluster=cluster)
    )
    session.done(outcomes, "done")


@export.command()
@session()
@where
@click.option("--type", "types", multiple=True,
              type=click.Choice(["topics", "subscriptionGroups", "consumerOffsets"]),
              help="[default: all]")  # fmt: skip
def rocksdb(
    session: Session, broker: str | None, cluster: str | None, types: tuple[str, ...]
) -> None:
    """Have Apache RocketMQ's brokers write what they keep in RocksDB to JSON files of theirs."""
    from pyrmq.admin.rocksdb import CONFIG_TYPES

    outcomes = session.run(
        lambda admin: admin.rocksdb.export_configs(
            types or CONFIG_TYPES, broker=broker, cluster=cluster
        )
    )
    session.done(outcomes, "written")
