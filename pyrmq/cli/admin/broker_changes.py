"""`pyrmq admin broker …`: what changes brokers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import TYPE_CHECKING

import click

from pyrmq.cli.admin.lazy import Group
from pyrmq.cli.admin.session import Session, session, where

if TYPE_CHECKING:
    from pyrmq.admin.api import Admin
    from pyrmq.admin.brokers import OfReplica
    from pyrmq.admin.outcome import Outcomes


@click.group(cls=Group)
def config() -> None:
    """Configuration of brokers."""


@config.command("set")
@session()
@where
@click.option("--slaves", is_flag=True, help="Slaves of the cluster, too.")
@click.argument("key")
@click.argument("value")
def config_set(
    session: Session,
    broker: str | None,
    cluster: str | None,
    slaves: bool,
    key: str,
    value: str,
) -> None:
    """Change a KEY of brokers that run."""
    if slaves and broker:
        raise click.UsageError("--slaves goes with --cluster")

    async def work(admin: Admin) -> Outcomes[None]:
        return await admin.brokers.update_config(
            key, value, broker=broker, cluster=cluster, slaves=slaves
        )

    session.done(session.run(work), f"{key} is {value or 'empty'} now")


@click.group(cls=Group)
def clean() -> None:
    """Have brokers delete what is not needed any more. Without --broker and --cluster: all."""


def _anywhere(command: Callable[..., None]) -> Callable[..., None]:
    """Adds --broker and --cluster, of which at most one may be given."""

    @wraps(command)
    def run(session: Session, broker: str | None, cluster: str | None) -> None:
        if broker and cluster:
            raise click.UsageError("say at most one of --broker HOST:PORT and --cluster NAME")
        place = broker or (f"cluster {cluster}" if cluster else "all brokers")
        command(session, broker, cluster, place)

    run = click.option("-c", "--cluster", metavar="NAME", help="All brokers of this cluster.")(run)
    return click.option("-b", "--broker", metavar="HOST:PORT", help="This broker only.")(run)


@clean.command("cq")
@session()
@_anywhere
def clean_cq(session: Session, broker: str | None, cluster: str | None, place: str) -> None:
    """Delete files of queues whose messages are gone."""

    async def work(admin: Admin) -> Outcomes[None]:
        return await admin.brokers.clean_queues(broker=broker, cluster=cluster)

    session.done(session.run(work), "cleaned")


@clean.command("topics")
@session(destroys=True)
@_anywhere
def clean_topics(session: Session, broker: str | None, cluster: str | None, place: str) -> None:
    """Delete what is left of topics that are not there any more."""
    session.confirm(f"Delete what is left of deleted topics on {place}?")

    async def work(admin: Admin) -> Outcomes[None]:
        return await admin.brokers.clean_topics(broker=broker, cluster=cluster)

    session.done(session.run(work), "cleaned")


@clean.command("commitlog")
@session(destroys=True)
@_anywhere
def clean_log(session: Session, broker: str | None, cluster: str | None, place: str) -> None:
    """Delete files of logs that are older than fileReservedTime, now."""
    session.confirm(f"Delete messages that are past their time on {place}?")

    async def work(admin: Admin) -> Outcomes[None]:
        return await admin.brokers.clean_log(broker=broker, cluster=cluster)

    session.done(session.run(work), "cleaned")


@click.group(cls=Group, name="cold-data")
def cold_data() -> None:
    """Groups that read old messages, and how much they may."""


_group = click.option("--group", required=True, metavar="GROUP", help="The consumer group.")


@cold_data.command("set")
@session()
@where
@_group
@click.argument("threshold", type=click.IntRange(0), metavar="BYTES")
def cold_set(
    session: Session, broker: str | None, cluster: str | None, group: str, threshold: int
) -> None:
    """Limit what a group reads of old messages."""

    async def work(admin: Admin) -> Outcomes[None]:
        return await admin.brokers.set_cold_data_threshold(
            group, threshold, broker=broker, cluster=cluster
        )

    session.done(session.run(work), f"{group} may read {threshold} bytes")


@cold_data.command("remove")
@session()
@where
@_group
def cold_remove(session: Session, broker: str | None, cluster: str | None, group: str) -> None:
    """Lift the limit of a group."""

    async def work(admin: Admin) -> Outcomes[None]:
        return await admin.brokers.remove_cold_data_threshold(group, broker=broker, cluster=cluster)

    session.done(session.run(work), f"{group} has no limit of its own")


@click.command("read-ahead")
@session()
@where
@click.argument("mode", type=click.Choice(["normal", "random"], case_sensitive=False))
def read_ahead(session: Session, broker: str | None, cluster: str | None, mode: str) -> None:
    """Say how brokers read ahead in their logs."""
    from pyrmq.admin.outcome import Outcomes

    async def work(admin: Admin) -> list[OfReplica[str]]:
        return await admin.brokers.set_read_ahead(
            random=mode == "random", broker=broker, cluster=cluster
        )

    session.done(Outcomes(of.outcome for of in session.run(work)), mode)


@click.command("flush-offset")
@session(destroys=True)
@click.option("-b", "--broker", required=True, metavar="HOST:PORT", help="A slave.")
@click.argument("offset", type=click.IntRange(0))
def flush_offset(session: Session, broker: str, offset: int) -> None:
    """Say to a slave how far its master has flushed."""
    session.confirm(f"Tell {broker} that its master has flushed up to {offset}?")

    async def work(admin: Admin) -> None:
        await admin.brokers.reset_flush_offset(broker, offset)

    _said(session, work, broker, f"flushed up to {offset}")


@click.command()
@session(destroys=True)
@click.option("-b", "--broker", required=True, metavar="HOST:PORT", help="A slave of pyrmq's make.")
@click.option("--sync", is_flag=True, help="As SYNC_MASTER.")
def promote(session: Session, broker: str, sync: bool) -> None:
    """Make a slave the master, once its master is gone.

    Refused while a master of its name answers. The old master does not start again beside it:
    `pyrmq store rejoin` makes it a slave.
    """
    session.confirm(f"Make {broker} the master of its name?")

    async def work(admin: Admin) -> None:
        await admin.brokers.promote(broker, sync=sync)

    _said(session, work, broker, "is master")


@click.group(cls=Group)
def container() -> None:
    """Brokers of a container."""


_at = click.option("--container", required=True, metavar="HOST:PORT", help="The container.")


@container.command("add")
@session()
@_at
@click.argument("config_path", metavar="FILE")
def container_add(session: Session, container: str, config_path: str) -> None:
    """Start a broker with a configuration FILE of the container's machine."""

    async def work(admin: Admin) -> None:
        await admin.brokers.add(container, config_path)

    _said(session, work, container, "added")


@container.command("remove")
@session(destroys=True)
@_at
@click.option("--cluster", required=True, metavar="NAME", help="The broker's cluster.")
@click.option("--name", required=True, metavar="BROKER", help="The broker's name.")
@click.option("--id", "number", required=True, type=click.IntRange(0), help="The broker's id.")
def container_remove(
    session: Session, container: str, cluster: str, name: str, number: int
) -> None:
    """Stop a broker."""
    session.confirm(f"Stop broker {name} {number} of {container}?")

    async def work(admin: Admin) -> None:
        await admin.brokers.remove(container, cluster, name, number)

    _said(session, work, container, "removed")


def _said(
    session: Session, work: Callable[[Admin], Awaitable[None]], target: str, verb: str
) -> None:
    """Runs a change of one server, and says that it was done."""
    from pyrmq.admin.outcome import Outcome, Outcomes

    session.run(work)
    done: Outcome[None] = Outcome(target)
    session.done(Outcomes([done]), verb)
