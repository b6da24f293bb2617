"""`pyrmq admin cluster …`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pyrmq.cli.admin.cluster_file import apply, diff
from pyrmq.cli.admin.lazy import Group
from pyrmq.cli.admin.session import Seconds, Session, namesrv_option, session

if TYPE_CHECKING:
    from pyrmq.admin.api import Admin
    from pyrmq.admin.clusters import BrokerRoundTrips
    from pyrmq.admin.health import ServerHealth
    from pyrmq.cli.admin.view import View


@click.group(cls=Group)
def cluster() -> None:
    """Clusters: their brokers, how long sends to each take, what changed in one."""


@cluster.command("list")
@session(watch=True)
@click.option("-c", "--cluster", metavar="NAME", help="Only this cluster.")
def list_(session: Session, cluster: str | None) -> None:
    """List brokers with what they do."""
    from pyrmq.admin.outcome import problem
    from pyrmq.admin.runtime_info import Traffic, first_number
    from pyrmq.cli.admin.view import Column, View
    from pyrmq.errors import BrokerMissingError

    async def work(admin: Admin) -> View:
        states = await admin.clusters.list(cluster)
        data: list[dict[str, Any]] = []
        for state in states:
            r, runtime = state.replica, state.runtime
            data.append(
                {
                    "cluster": r.cluster,
                    "broker": r.broker_name,
                    "id": r.broker_id,
                    "address": r.address,
                    "was": r.was or None,
                    "missing": isinstance(state.error, BrokerMissingError),
                    "error": None if state.error is None else str(state.error),
                    "in_tps": first_number(runtime, "putTps"),
                    "out_tps": first_number(runtime, "getTransferredTps"),
                    "traffic": Traffic.of(runtime),
                    "runtime": runtime,
                }
            )

        def figure(name: str) -> Any:
            return lambda r: r["runtime"].get(name)

        def rate(name: str) -> Any:
            return lambda r: "" if r["error"] else f"{r[name]:.2f}"

        def today(name: str) -> Any:
            return lambda r: "" if r["error"] else getattr(r["traffic"], name)

        def state_of(r: dict[str, Any]) -> str:
            return "missing" if r["missing"] else "does not answer" if r["error"] else "ok"

        columns = (
            Column("CLUSTER", "cluster"),
            Column("BROKER", "broker"),
            Column("ID", "id", right=True),
            Column("ADDRESS", lambda r: f"was {r['was']}" if r["was"] else r["address"]),
            Column("VERSION", figure("brokerVersionDesc")),
            Column("IN TPS", rate("in_tps"), right=True),
            Column("OUT TPS", rate("out_tps"), right=True),
            Column("IN TODAY", today("in_today"), right=True),
            Column("OUT TODAY", today("out_today"), right=True),
            Column("DISK", figure("commitLogDiskRatio"), right=True),
            Column("STATE", state_of,
                   style=lambda r: "red" if r["error"] else "green"),
        )  # fmt: skip
        failed = [problem(s.replica.address, s.error) for s in states if s.error is not None]
        all_failed = len(failed) == len(states)
        return View(data, data, columns, (), "no brokers", failed, all_failed=all_failed)

    session.report(work)


@cluster.command()
@session()
@click.option("-c", "--cluster", metavar="NAME", help="Only this cluster.")
def health(session: Session, cluster: str | None) -> None:
    """Say in a word whether a cluster is well: ok, degraded or down.

    Below it a row for each name server and each broker, those too that should be there and are
    missing: an expect list names them, or they were seen before. Exit codes: 0 ok, 3 degraded,
    2 down.
    """
    from pyrmq.admin.draining import NO_DRAIN
    from pyrmq.admin.health import DEGRADED, DOWN
    from pyrmq.cli.admin.session import FAILED, PARTLY
    from pyrmq.cli.admin.view import Column, View

    found = session.run(lambda admin: admin.clusters.health(cluster))
    styles = {DOWN: "red", DEGRADED: "yellow"}

    def notes(server: ServerHealth) -> str:
        drained = server.drain is not None and server.drain != NO_DRAIN
        return "; ".join([*server.problems, *([f"drained ({server.drain})"] if drained else [])])

    columns = (
        Column("ROLE", "role"), Column("CLUSTER", "cluster"), Column("BROKER", "broker_name"),
        Column("ID", "broker_id", right=True), Column("ADDRESS", "address"),
        Column("STATE", "state", style=lambda s: styles.get(s.state, "green")),
        Column("BEHIND", "behind", right=True),
        Column("DISK", lambda s: "" if s.disk is None else f"{s.disk:.0f} %", right=True),
        Column("", notes),
    )  # fmt: skip
    if session.output == "table":
        click.echo(found.state)
    session.show(View(found, found.servers, columns))
    if found.state == DOWN:
        raise click.exceptions.Exit(FAILED)
    if found.state == DEGRADED:
        raise click.exceptions.Exit(PARTLY)


@cluster.command()
@namesrv_option
@click.option("--debug", is_flag=True, help="Show where an error comes from.")
@click.argument("broker")
def forget(namesrv: str, debug: bool, broker: str) -> None:
    """Miss the brokers of a name no more: BROKER is gone for good.

    That it was seen is forgotten, in the file where commands of this user keep it. A broker that is
    there is seen again. One that an expect list names has to go from there.
    """
    from pyrmq.cli.tools_file import seen_file, wanted
    from pyrmq.errors import ClientError
    from pyrmq.escape import escape

    session = Session(namesrv, "table", None, debug)
    try:
        file = seen_file(namesrv)
        many = file.forget(broker)
        if not many:
            raise ClientError(f"no broker {broker} was seen through {namesrv}")
        click.echo(f"forgotten: {many} of broker {escape(broker)}")
        if any(e.broker_name == broker for e in wanted()):
            raise ClientError(
                f"an expect list names {broker}: it is missed until it goes from there"
            )
    except BaseException as e:
        session.fail(e)


@cluster.command()
@session()
@click.option("-c", "--cluster", metavar="NAME", help="Only this cluster.")
@click.option("--amount", type=click.IntRange(1, 1_000_000), default=100, show_default=True,
              help="Messages to each broker in a round.")  # fmt: skip
@click.option("--size", type=click.IntRange(1, 64 << 20), default=128, show_default=True,
              help="Bytes of each body.")  # fmt: skip
@click.option("--rounds", type=click.IntRange(0), default=1, show_default=True,
              help="How many rounds; 0: until Ctrl-C.")  # fmt: skip
@click.option("--interval", type=Seconds(0, 86_400), default=10.0, show_default=True,
              help="Seconds between rounds.")  # fmt: skip
def rt(
    session: Session,
    cluster: str | None,
    amount: int,
    size: int,
    rounds: int,
    interval: float,
) -> None:
    """Measure how long sends to each broker take."""
    from contextlib import aclosing

    from pyrmq.cli.admin.session import printing
    from pyrmq.cli.admin.view import show_each

    def text(row: BrokerRoundTrips) -> str:
        tail = f", {row.failures} failed: {row.error}" if row.failures else ""
        done = f"{row.successes} sent{tail}"
        return f"{row.cluster}  {row.broker_name}  {row.average_ms:.2f} ms  {done}"

    async def work(admin: Admin) -> tuple[list[str], bool]:
        failed: dict[str, str] = {}
        sent = 0
        trips = admin.clusters.round_trips(
            cluster=cluster, amount=amount, size=size, rounds=rounds, interval=interval
        )
        async with aclosing(trips) as rows:
            async for row in rows:
                show_each(row, session.output, text)
                sent += row.successes
                if row.error is not None:
                    failed[row.broker_name] = str(row.error)
        return [f"{name}: {error}" for name, error in failed.items()], not sent

    problems: list[str] = []
    all_failed = False
    with printing():
        problems, all_failed = session.run(work)
    session.partly(problems, all_failed=all_failed)


cluster.add_command(diff)
cluster.add_command(apply)
