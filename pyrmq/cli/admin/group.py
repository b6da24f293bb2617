"""`pyrmq admin group …`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pyrmq.cli.admin.group_changes import create, create_batch, delete, mode
from pyrmq.cli.admin.lazy import Group
from pyrmq.cli.admin.session import Session, session

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyrmq.admin.api import Admin
    from pyrmq.admin.consume_stats import ConsumeStats
    from pyrmq.cli.admin.view import View


def red_unless_zero(name: str) -> Callable[[Any], str]:
    """The style of a figure that has to be 0."""
    return lambda row: "red" if row[name] else ""


def gone_notes(stats: ConsumeStats) -> list[str]:
    """The text about messages that were deleted before a group consumed them."""
    notes = []
    if stats.gone:
        notes.append(
            f"{stats.gone} of diff were deleted before the group consumed them: "
            f"{stats.diff - stats.gone} are left"
        )
    if stats.deleted_unread:
        notes.append(
            f"{stats.deleted_unread} messages were deleted unread since the brokers' start"
        )
    return notes


@click.group(cls=Group)
def group() -> None:
    """Consumer groups: how far they are, who is online, their configuration."""


@group.command("list")
@session(watch=True)
@click.option("--system", is_flag=True, help="Also the groups of brokers and tools.")
def list_(session: Session, system: bool) -> None:
    """List groups: members, what they have not consumed."""
    from pyrmq.cli.admin.view import Column, table
    from pyrmq.model.codes import version_name
    from pyrmq.model.names import is_system_group

    async def work(admin: Admin) -> View:
        rows: list[dict[str, Any]] = []
        configured = await admin.groups.names()
        failed = [o.problem for o in configured.failed]
        answered = False
        async for s in admin.groups.summaries(configured):
            if not system and is_system_group(s.group):
                continue
            failed.extend(f"{s.group}: {error}" for error in s.failed)
            online = s.online
            answered |= bool(s.stats or s.online) or not s.failed
            rows.append(
                {
                    "group": s.group,
                    "members": len(online.connections) if online else 0,
                    "lowest_version": version_name(online.lowest_version) if online else None,
                    "consume_type": online.consume_type if online else None,
                    "message_model": online.message_model if online else None,
                    "tps": s.stats.tps if s.stats else None,
                    "diff": s.stats.diff if s.stats else None,
                    "gone": s.stats.gone if s.stats else None,
                }
            )
        return table(
            rows,
            Column("GROUP", "group"),
            Column("MEMBERS", "members", right=True),
            Column("VERSION", "lowest_version"),
            Column("TYPE", "consume_type"),
            Column("MODEL", "message_model"),
            Column("TPS", lambda r: "" if r["tps"] is None else f"{r['tps']:.2f}", right=True),
            Column("DIFF", "diff", right=True),
            Column("GONE", "gone", right=True, style=red_unless_zero("gone")),
            empty="no groups",
            failed=failed,
            all_failed=not answered,
        )

    session.report(work)


@group.command()
@session(watch=True)
@click.argument("name")
@click.option("--topic", help="This topic only.")
@click.option("--clients", is_flag=True, help="With the member that has each queue.")
def progress(session: Session, name: str, topic: str | None, clients: bool) -> None:
    """Show how far a group is in each queue."""
    from pyrmq.cli.admin.view import Column, View, moment

    async def work(admin: Admin) -> View:
        stats = await admin.groups.consume_stats(name, topic)
        owners = await admin.groups.queue_owners(name) if clients else {}
        failed = [o.problem for o in stats.failed]
        data = {
            "group": name,
            "tps": stats.tps,
            "diff": stats.diff,
            "gone": stats.gone,
            "deleted_unread": stats.deleted_unread,
            "inflight": stats.inflight,
            "queues": [
                {
                    "topic": q.queue.topic,
                    "broker": q.queue.broker_name,
                    "queue": q.queue.queue_id,
                    "broker_offset": q.broker_offset,
                    "consumer_offset": q.consumer_offset,
                    "min_offset": q.min_offset,
                    "diff": q.diff,
                    "gone": q.gone,
                    "inflight": q.inflight,
                    "last_timestamp": q.last_timestamp or None,
                    **({"client": owners.get(q.queue)} if clients else {}),
                }
                for q in stats.queues
            ],
        }
        columns = (
            Column("TOPIC", "topic"),
            Column("BROKER", "broker"),
            Column("QUEUE", "queue", right=True),
            Column("BROKER OFFSET", "broker_offset", right=True),
            Column("CONSUMER OFFSET", "consumer_offset", right=True),
            Column("DIFF", "diff", right=True),
            Column("GONE", "gone", right=True, style=red_unless_zero("gone")),
            Column("INFLIGHT", "inflight", right=True),
            Column("LAST CONSUMED", lambda r: moment(r["last_timestamp"] or 0)),
            *((Column("CLIENT", "client"),) if clients else ()),
        )
        total = f"diff {stats.diff}, inflight {stats.inflight}, {stats.tps:.2f} messages/s"
        notes = [total, *gone_notes(stats)]
        rows: Any = data["queues"]
        return View(data, rows, columns, notes, "no queues", failed)

    session.report(work)


@group.command()
@session(watch=True)
@click.argument("name")
@click.option("-b", "--broker", metavar="HOST:PORT", help="As this broker has them.")
def connections(session: Session, name: str, broker: str | None) -> None:
    """Show the members of a group, and what they subscribe to."""
    from pyrmq.cli.admin.view import Column, View

    async def work(admin: Admin) -> View:
        found = await admin.groups.connections(name, broker=broker)
        subscriptions = ", ".join(f"{s.topic} ({s.expression})" for s in found.subscriptions)
        return View(
            found,
            found.connections,
            (
                Column("CLIENT", "client_id"),
                Column("ADDRESS", "address"),
                Column("LANGUAGE", "language"),
                Column("VERSION", "version_name"),
            ),
            (
                f"{found.consume_type}, {found.message_model}, {found.consume_from}",
                f"subscribes to {subscriptions}",
            ),
        )

    session.report(work)


@group.command()
@session(watch=True)
@click.argument("name")
@click.option("--client", help="This client id only.")
@click.option("--stacks", is_flag=True, help="With the stacks of their threads (JSON, YAML).")
def status(session: Session, name: str, client: str | None, stacks: bool) -> None:
    """Ask the members of a group how they run, and look for what is wrong."""
    import time

    from pyrmq.admin.running_info import queue_problems, subscriptions_agree
    from pyrmq.cli.admin.view import Column, View
    from pyrmq.errors import PyrmqError

    async def work(admin: Admin) -> View:
        failed: list[str] = []
        infos = {}
        wanted = (
            [client]
            if client
            else [c.client_id for c in (await admin.groups.connections(name)).connections]
        )
        for one in wanted:
            try:
                infos[one] = await admin.groups.running_info(name, one, stacks=stacks)
            except PyrmqError as e:
                failed.append(f"{one}: {e}")
        now = time.time_ns() // 1_000_000
        same = subscriptions_agree(infos, now)
        problems = [p for info in infos.values() for p in queue_problems(info, now)]
        held = [(info.client_id, q) for info in infos.values() for q in info.queues]
        said = [f"{p.client_id} {p.queue.topic} {p.queue.broker_name} {p.queue.queue_id}: {p.text}"
                for p in problems]  # fmt: skip
        if not same:
            said.append("members subscribe to different topics or expressions")
        data = {"members": list(infos.values()), "same_subscription": same, "problems": problems}
        columns = (
            Column("CLIENT", lambda r: r[0]),
            Column("TOPIC", lambda r: r[1].queue.topic),
            Column("BROKER", lambda r: r[1].queue.broker_name),
            Column("QUEUE", lambda r: r[1].queue.queue_id, right=True),
            Column("COMMITTED", lambda r: r[1].commit_offset, right=True),
            Column("CACHED", lambda r: r[1].cached, right=True),
            Column("LOCKED", lambda r: "yes" if r[1].locked else ""),
        )
        notes = said or (["nothing is wrong"] if infos else [])
        return View(data, held, columns, notes, "no queues", failed, all_failed=not infos)

    session.report(work)


@group.command()
@session()
@click.argument("name")
@click.argument("topic")
@click.option("--client", default="", help="This client id only.")
def offsets(session: Session, name: str, topic: str, client: str) -> None:
    """Show how far the members of a group say that they are in a topic."""
    from pyrmq.cli.admin.view import Column, table

    async def work(admin: Admin) -> View:
        return table(
            await admin.offsets.of_clients(name, topic, client),
            Column("CLIENT", "client_id"),
            Column("BROKER", lambda r: r.queue.broker_name),
            Column("QUEUE", lambda r: r.queue.queue_id, right=True),
            Column("OFFSET", "offset", right=True),
            empty="no member answered",
        )

    session.report(work)


@group.command()
@session()
@click.argument("name")
def config(session: Session, name: str) -> None:
    """Show the configuration of a group on each broker."""
    from pyrmq.cli.admin.view import Column, View
    from pyrmq.errors import ClientError

    async def work(admin: Admin) -> View:
        outcomes = (await admin.groups.configs(name)).check()
        failed = [o.problem for o in outcomes.failed]
        found = [at for at in outcomes.values if at is not None]
        if not found and not failed:
            raise ClientError(f"no broker has group {name}")
        rows = [(at, k, v) for at in found for k, v in at.config.members().items()]
        columns = (
            Column("BROKER", lambda r: r[0].broker_name),
            Column("NAME", lambda r: r[1]),
            Column("VALUE", lambda r: r[2]),
        )
        return View(found, rows, columns, failed=failed)

    session.report(work)


group.add_command(progress, "lag")
for _command in (create, create_batch, delete, mode):
    group.add_command(_command)
