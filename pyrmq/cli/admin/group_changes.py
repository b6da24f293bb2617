"""The commands of `pyrmq admin group` that make, change and delete groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pyrmq.cli.admin.session import Session, session, where

if TYPE_CHECKING:
    from pyrmq.admin.api import Admin


def _members(name: str, **given: Any) -> dict[str, Any]:
    """What was named, by members of GroupConfig."""
    import json

    from pyrmq.admin.groups import attributes_of
    from pyrmq.errors import ConfigError, InvalidParameterError
    from pyrmq.model.names import check_consumer_group

    members = {k: v for k, v in given.items() if v is not None}
    try:
        check_consumer_group(name)
    except InvalidParameterError as e:
        raise click.UsageError(str(e)) from None
    try:
        members["attributes"] = attributes_of(given["attributes"])
    except ConfigError as e:
        raise click.UsageError(f"--attributes: {e}") from None
    if "group_retry_policy" in members:
        try:
            members["group_retry_policy"] = json.loads(members["group_retry_policy"])
        except ValueError as e:
            raise click.UsageError(f"--retry-policy takes a JSON object: {e}") from None
        if not isinstance(members["group_retry_policy"], dict):
            raise click.UsageError("--retry-policy takes a JSON object")
    return members


@click.command()
@session()
@where
@click.argument("name")
@click.option("--consume/--no-consume", "consume_enable", default=None)
@click.option("--from-min/--no-from-min", "consume_from_min_enable", default=None)
@click.option("--broadcast/--no-broadcast", "consume_broadcast_enable", default=None)
@click.option("--orderly/--no-orderly", "consume_message_orderly", default=None)
@click.option("--retry-queues", "retry_queue_nums", type=click.IntRange(0, 65_536))
@click.option("--retries", "retry_max_times", type=click.IntRange(-1),
              help="Until a message is a dead letter: 16 for a new group.")  # fmt: skip
@click.option("--retry-policy", "group_retry_policy", metavar="JSON", help="Delays of retries.")
@click.option("--notify/--no-notify", "notify_consumer_ids_changed_enable", default=None,
              help="Tell members of others.")  # fmt: skip
@click.option("--attributes", default="", metavar="+A=B,-C")
def create(
    session: Session, name: str, broker: str | None, cluster: str | None, **given: Any
) -> None:
    """Create a group, or change what is named of its configuration."""
    members = _members(name, **given)
    outcomes = session.run(
        lambda admin: admin.groups.change(name, members, broker=broker, cluster=cluster)
    )
    session.done(outcomes, "created or changed")


@click.command("create-batch")
@session()
@where
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
def create_batch(session: Session, file: str, broker: str | None, cluster: str | None) -> None:
    """Create or change the groups of a FILE with a JSON array of configurations."""
    from pyrmq.cli.mqadmin.groups import read_groups
    from pyrmq.cli.mqadmin.options import UsageError

    async def work(admin: Admin) -> Any:
        try:
            configs = await read_groups(file)
        except UsageError as e:
            raise click.UsageError(str(e)) from None
        if not configs:
            raise click.UsageError(f"{file} has no groups")
        return await admin.groups.update_many(configs, broker=broker, cluster=cluster)

    session.done(session.run(work), "created or changed")


@click.command()
@session(destroys=True)
@where
@click.argument("name")
@click.option("--offsets", is_flag=True, help="Also what it has consumed.")
def delete(
    session: Session, name: str, broker: str | None, cluster: str | None, offsets: bool
) -> None:
    """Delete a group; of a cluster also its retry and dead-letter topics."""
    more = ", with its retry and dead-letter topics," if cluster else ""
    session.confirm(f"Delete group {name}{more} from {cluster or broker}?")

    async def work(admin: Admin) -> Any:
        outcomes = await admin.groups.delete(
            name, remove_offsets=offsets, broker=broker, cluster=cluster
        )
        failed = []
        if cluster and not outcomes.failed:
            failed = await admin.groups.delete_topics(name, cluster)
        return outcomes, [o.problem for o in failed]

    outcomes, failed = session.run(work)
    session.done(outcomes, "deleted")
    session.partly(failed)


@click.command()
@session()
@where
@click.argument("name")
@click.argument("topic")
@click.argument(
    "consume_mode", metavar="MODE", type=click.Choice(["pull", "pop"], case_sensitive=False)
)
@click.option("--share", type=click.IntRange(-1), default=0, show_default=True,
              help="How many members may pop the same queue.")  # fmt: skip
def mode(
    session: Session, name: str, topic: str, consume_mode: str, share: int,
    broker: str | None, cluster: str | None,
) -> None:  # fmt: skip
    """Say whether a group pulls a topic or pops it."""
    outcomes = session.run(
        lambda admin: admin.groups.set_consume_mode(
            name, topic, consume_mode.upper(), share, broker=broker, cluster=cluster
        )
    )
    session.done(outcomes, f"set to {consume_mode}")
