"""Options that say which brokers a command is for, and running it with them."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pyrmq.cli.access import Access, access_options

if TYPE_CHECKING:
    from pyrmq.admin.expected import Missing
    from pyrmq.admin.txn.link import BrokerLink
    from pyrmq.cli.progress_line import ProgressLine
    from pyrmq.net.address import Address

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Target:
    """Which brokers a command is for."""

    namesrv: list[Address]
    broker: Address | None
    every: bool
    cluster: str | None
    access: Callable[[], Access]
    """What to connect with."""


def _addresses(ctx: click.Context, param: click.Parameter, value: str | None) -> list[Address]:
    from pyrmq.errors import ConfigError
    from pyrmq.net.address import parse_addresses

    try:
        return parse_addresses(value or "")
    except ConfigError as e:
        raise click.BadParameter(str(e)) from e


_OPTIONS = (
    click.option(
        "-n",
        "--namesrv",
        envvar="NAMESRV_ADDR",
        default="127.0.0.1:9876",
        show_default=True,
        callback=_addresses,
        help="Name servers, `host:port;host:port`.",
    ),
    click.option(
        "-b",
        "--broker",
        metavar="HOST:PORT",
        callback=_addresses,
        help="This broker; no name server is asked.",
    ),
    click.option("--all-brokers", is_flag=True, help="Every master that the name server knows."),
    click.option("--cluster", help="Brokers of this cluster only."),
)


def targeted(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options that say which brokers; the command gets a Target first."""
    from functools import wraps

    @access_options
    @wraps(command)
    def run(
        namesrv: list[Address],
        broker: list[Address],
        all_brokers: bool,
        cluster: str | None,
        access: Callable[[], Access],
        **rest: Any,
    ) -> None:
        if len(broker) > 1:
            raise click.UsageError("--broker is one address")
        if broker and (all_brokers or cluster):
            raise click.UsageError("--broker excludes --all-brokers and --cluster")
        if not broker and not namesrv:
            raise click.UsageError("--namesrv names no name server")
        only = broker[0] if broker else None
        command(Target(namesrv, only, all_brokers, cluster, access), **rest)

    for option in reversed(_OPTIONS):
        run = option(run)
    return run


def ask(
    target: Target,
    work: Callable[[Sequence[BrokerLink], ProgressLine], Awaitable[T]],
    missing: list[Missing] | None = None,
) -> T:
    """Runs `work` with the brokers that are meant; Ctrl-C ends it in order. Brokers that should be
    there and have no master go into `missing`."""
    import trio

    from pyrmq.admin.txn.link import Cluster
    from pyrmq.cli.progress_line import ProgressLine
    from pyrmq.cli.tools_file import expected
    from pyrmq.net.address import format_address

    line = ProgressLine(logs=True)
    done: list[T] = []

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(stop_on_signal, nursery.cancel_scope)
            should_be = expected(";".join(map(format_address, target.namesrv)))
            access = target.access()
            async with Cluster(
                target.namesrv, target.broker, access.credentials, should_be, access.tls
            ) as cluster:
                links = await cluster.links(target.cluster, every=target.every)
                if missing is not None:
                    missing.extend(cluster.missing)
                done.append(await work(links, line))
            nursery.cancel_scope.cancel()

    async def stop_on_signal(
        scope: trio.CancelScope, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            task_status.started()
            async for _ in signals:
                scope.cancel()

    try:
        trio.run(run)
    finally:
        line.clear()
    if not done:
        raise click.Abort
    return done[0]


def ask_each(target: Target, work: Callable[[BrokerLink, ProgressLine], Awaitable[T]]) -> list[Any]:
    """The result, or the error, of each broker, and the error of each that is missing. Of a single
    broker errors come as they are."""
    from pyrmq.errors import PyrmqError

    async def all_of(links: Sequence[BrokerLink], line: ProgressLine) -> list[Any]:
        found: list[Any] = []
        for link in links:
            try:
                found.append((link.name, await work(link, line)))
            except PyrmqError as e:
                if len(links) == 1:
                    raise
                found.append((link.name, e))
        return found

    missing: list[Missing] = []
    found = ask(target, all_of, missing)
    return found + [(m.label, m.error) for m in missing]
