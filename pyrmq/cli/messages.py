"""`pyrmq send` and `pyrmq consume`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from pyrmq.cli.access import Access, access_options

if TYPE_CHECKING:
    from pyrmq.model.record import ReceivedMessage

namesrv_option = click.option(
    "-n",
    "--namesrv",
    envvar="NAMESRV_ADDR",
    default="127.0.0.1:9876",
    show_default=True,
    help="Name servers, `host:port;host:port`.",
)


@click.command()
@namesrv_option
@access_options
@click.option("-t", "--topic", required=True)
@click.option("-b", "--body", help="The message; without it every line of stdin is one.")
@click.option("-k", "--keys", help="Keys, separated by blanks.")
@click.option("--tags", help="The message's tag.")
@click.option("-p", "--property", "properties", multiple=True, metavar="NAME=VALUE")
@click.option("--delay-level", type=click.IntRange(0, 1024), default=0, help="Deliver it later.")
@click.option("--delay", type=click.FloatRange(0), help="Deliver it after so many seconds.")
@click.option("--deliver-at", metavar="TIME", help="Deliver it then: ISO text, or ms since 1970.")
@click.option("--priority", type=click.IntRange(0, (1 << 31) - 1), help="The queue of that number.")
@click.option("-g", "--group", default="pyrmq-cli", show_default=True)
def send(
    namesrv: str,
    topic: str,
    body: str | None,
    keys: str | None,
    tags: str | None,
    properties: tuple[str, ...],
    delay_level: int,
    delay: float | None,
    deliver_at: str | None,
    priority: int | None,
    group: str,
    access: Callable[[], Access],
) -> None:
    """Send one message, or each line of stdin as one."""
    import trio

    from pyrmq.cli.admin.view import time_of
    from pyrmq.client import Producer
    from pyrmq.escape import escape
    from pyrmq.model.message import Message

    at = time_of("--deliver-at", deliver_at)
    connect = access()
    own: dict[str, str] = {}
    for pair in properties:
        name, found, value = pair.partition("=")
        if not found or not name:
            raise click.BadParameter(f"{pair!r} is not NAME=VALUE", param_hint="--property")
        own[name] = value

    async def run() -> None:
        async with Producer(
            group, namesrv=namesrv, credentials=connect.credentials, tls=connect.tls
        ) as producer:
            if body is not None:
                await one(producer, os.fsencode(body))
                return
            # Each line goes out as it comes; without its end, and as the bytes that it is.
            while line := await trio.to_thread.run_sync(
                sys.stdin.buffer.readline, abandon_on_cancel=True
            ):
                text = line.rstrip(b"\r\n")
                if text:
                    await one(producer, text)
                else:
                    click.echo("an empty line is no message: left out", err=True)

    async def one(producer: Producer, text: bytes) -> None:
        message = Message(
            topic,
            text,
            tags=tags,
            keys=keys,
            properties=dict(own),
            delay_time_level=delay_level,
            delay=delay,
            deliver_at=None if at is None else at / 1000,
            priority=priority,
        )
        result = await producer.send(message)
        where = result.queue
        click.echo(
            f"{result.status} msgId={escape(result.msg_id)} broker={escape(where.broker_name)} "
            f"queueId={where.queue_id} queueOffset={result.queue_offset}"
            + (f" recallHandle={escape(result.recall_handle)}" if result.recall_handle else "")
        )

    trio.run(run)


@click.command()
@namesrv_option
@access_options
@click.option("-t", "--topic", required=True)
@click.option("-g", "--group", default="pyrmq-cli", show_default=True)
@click.option("-s", "--sub-expression", default="*", show_default=True, help="`TagA || TagB`.")
@click.option("--sql", help="An SQL92 expression over properties, instead of tags.")
@click.option("-c", "--count", type=click.IntRange(1), help="Stop after so many messages.")
@click.option("--timeout", type=click.FloatRange(0), help="Stop after so many seconds.")
@click.option("--from-first", is_flag=True, help="A new group starts at the oldest message.")
@click.option("--raw", is_flag=True, help="Print bodies alone, byte for byte.")
def consume(
    namesrv: str,
    topic: str,
    group: str,
    sub_expression: str,
    sql: str | None,
    count: int | None,
    timeout: float | None,
    from_first: bool,
    raw: bool,
    access: Callable[[], Access],
) -> None:
    """Print messages as a member of a consumer group, until stopped.

    One line for each: BROKER-QUEUEID@OFFSET, tags, keys and body. Line ends, controls and other
    characters that a terminal would obey are shown as in a Python string (\\n, \\x1b), and so are
    bytes that are no UTF-8. Backslashes stay as they are, so that this is for reading, not for
    turning back. --raw prints the bodies instead, byte for byte with a newline after
    each, for a file or a pipe. A body that cannot be decompressed is said so, with --raw on stderr.
    """
    import signal

    import trio

    from pyrmq.client import ConsumeFrom, PushConsumer
    from pyrmq.escape import escape, escape_bytes
    from pyrmq.model.subscription import Sql

    if sql is not None and sub_expression != "*":
        raise click.UsageError("--sql and --sub-expression exclude each other")
    wanted = sub_expression if sql is None else Sql(sql)
    connect = access()

    start = ConsumeFrom.FIRST_OFFSET if from_first else ConsumeFrom.LAST_OFFSET

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop_on_signal, nursery.cancel_scope)
            with trio.move_on_after(timeout if timeout is not None else float("inf")):
                await show()
            nursery.cancel_scope.cancel()

    async def stop_on_signal(scope: trio.CancelScope) -> None:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _ in signals:
                scope.cancel()

    def line_of(message: ReceivedMessage) -> str:
        place = f"{message.broker_name}-{message.queue_id}@{message.queue_offset}"
        about = f"{place} tags={message.tags} keys={' '.join(message.keys)}"
        if message.body_error is not None:
            return f"{escape(about)} ({escape(message.body_error)})"
        return f"{escape(about)} {escape_bytes(message.body)}"

    async def show() -> None:
        left = count
        async with PushConsumer(
            group,
            {topic: wanted},
            namesrv=namesrv,
            credentials=connect.credentials,
            tls=connect.tls,
            consume_from=start,
        ) as consumer:
            async for message in consumer:
                if raw and message.body_error is None:
                    click.echo(message.body)
                else:
                    click.echo(line_of(message), err=raw)
                consumer.acknowledge(message)  # it was printed, whatever comes now
                if left is not None:
                    left -= 1
                    if left == 0:
                        return

    trio.run(run)
