"""`pyrmq bench send`, `pull`, …: a command for each load, its options from one table."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from pyrmq.cli.access import OPTIONS, Access
from pyrmq.cli.bench_files import NEW_FILE, check_new_files, written

LOADS = {
    "send": "Send one message a request, each answered.",
    "batch": "Send many messages a request.",
    "oneway": "Send one message a request, without an answer.",
    "pull": "Read what is stored, from the first message on, again and again.",
    "push": "Receive what others send, by pulls that wait at the broker.",
    "latency": "Send at a rate and receive: from the time due to the consumer.",
    "pop": "Send at a rate, pop (POP_MESSAGE) and acknowledge each message.",
    "transaction": "Send halves, and commit each with END_TRANSACTION.",
    "delay": "Send with a delay level and receive: how late messages come.",
    "timer": "Send timer messages and receive: how late messages come.",
    "mixed": "Run the producers and consumers that a TOML file describes.",
}
FAILED, INTERRUPTED = 1, 130
SENDERS = {"send", "batch", "oneway", "transaction", "delay", "timer", "latency", "pop", "mixed"}
BOTH = SENDERS | {"pull", "push"}
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


class _Parsed(click.ParamType[Any]):
    """A text that a function of `pyrmq.bench.options` reads."""

    def __init__(self, name: str, function: str) -> None:
        self.name, self._function = name, function

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        if not isinstance(value, str):
            return value
        from pyrmq.bench import options

        try:
            return getattr(options, self._function)(value)
        except options.OptionError as e:
            self.fail(str(e), param, ctx)


TIME = _Parsed("time", "parse_time")
_TAGS = _Parsed("tags", "parse_tags")


class Between(click.ParamType[float]):
    """A value of another type within bounds."""

    name = "time"

    def __init__(self, inner: click.ParamType[Any], least: float, most: float) -> None:
        self._inner, self._least, self._most = inner, least, most

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        found = float(self._inner.convert(value, param, ctx))
        if not self._least <= found <= self._most:
            self.fail(f"{value} is not between {self._least:g} s and {self._most:g} s", param, ctx)
        return found


Row = tuple[set[str], Callable[[Any], Any]]


def _option(*names: str, loads: set[str] = BOTH, **how: Any) -> Row:
    how.setdefault("show_default", how.get("default") is not None and not how.get("multiple"))
    return loads, click.option(*names, **how)


_OPTIONS: list[Row] = [
    _option("-n", "--namesrv", default="", show_default=False, help="Name servers.  [host:port;…]"),
    _option(
        "--address",
        "--broker",
        "address",
        default="",
        show_default=False,
        help="One broker, host:port, without a name server.",
    ),
    _option("--embedded", is_flag=True, help="Start pyrmq's own broker on a temporary folder."),
    _option(
        "--flush",
        type=click.Choice(["ASYNC_FLUSH", "SYNC_FLUSH"]),
        default="ASYNC_FLUSH",
        help="flushDiskType of the embedded broker.",
    ),
    _option(
        "--cluster", default="", show_default=False, help="Which one, where there are several."
    ),
    *((BOTH, option) for option in OPTIONS),
    _option("-t", "--topic", default="PyrmqBench", help="It is made if it does not exist."),
    _option("--topics", type=int, default=1, help="Several: NAME-0, NAME-1, and so on."),
    _option("--queues", type=int, default=4, help="Of a topic that is made, on each broker."),
    _option("-g", "--group", default="pyrmq-bench", help="Producer and consumer group."),
    _option("-c", "--connections", type=int, default=4, help="Connections of the load."),
    _option(
        "--consumers",
        type=int,
        default=1,
        loads=SENDERS - {"mixed"},
        help="Connections that receive (latency, delay, pop, --verify).",
    ),
    _option(
        "-i",
        "--in-flight",
        type=int,
        default=16,
        loads=BOTH - {"push"},
        help="Requests under way on each.",
    ),
    _option("--threads", type=int, default=1, help="Threads of the load generator."),
    _option(
        "-r",
        "--rate",
        type=click.FloatRange(0.001, 1e9),
        loads=SENDERS,
        help="Messages/s in all: an open loop.  [default: closed loop; latency, delay, pop: 1000]",
    ),
    _option("-d", "--duration", type=TIME, help="Of the measured window.  [default: 10s]"),
    _option("--count", type=click.IntRange(1), help="End after so many messages."),
    _option("--warmup", type=TIME, default=0.0, help="Load before the window."),
    _option(
        "-s",
        "--size",
        default="1024",
        loads=SENDERS,
        help="Bytes of a body: 1024, 100-2000 (even), exp:1024 (a mean).",
    ),
    _option(
        "--payload-file",
        "payload_files",
        type=_FILE,
        multiple=True,
        loads=SENDERS,
        help="Its content is the body; several are used in turns.",
    ),
    _option(
        "--compression",
        type=click.Choice(["none", "zlib"]),
        default="none",
        loads=SENDERS,
        help="Bodies as clients compress them.",
    ),
    _option(
        "--flush-wait/--no-flush-wait",
        default=True,
        loads=SENDERS,
        help="WAIT: answered behind the flush, with SYNC_FLUSH.",
    ),
    _option("--batch", type=int, default=32, loads={"batch", "mixed"}, help="Messages a request."),
    _option(
        "--oneway-end",
        is_flag=True,
        loads={"transaction", "mixed"},
        help="Send END_TRANSACTION one-way, as clients do.",
    ),
    _option(
        "--max-msgs", type=int, default=32, loads=BOTH, help="Messages a pull or pop asks for."
    ),
    _option(
        "--invisible-time",
        type=TIME,
        default=60.0,
        loads={"pop", "mixed"},
        help="How long a popped message stays away if it is not acknowledged.",
    ),
    _option("--tags", type=_TAGS, loads=SENDERS, help="TagA,TagB or with weights TagA=7,TagB=3."),
    _option("--keys", type=int, default=0, loads=SENDERS, help="So many different KEYS.  [none]"),
    _option(
        "-p",
        "--property",
        "properties",
        multiple=True,
        metavar="NAME=VALUE",
        loads=SENDERS,
        help="A property of each message.",
    ),
    _option(
        "--subscription",
        default="*",
        loads={"pull", "push"},
        help="Tags that are wanted: 'TagA || TagB'.",
    ),
    _option("--sql", default="", show_default=False, loads={"pull", "push"}, help="SQL92 instead."),
    _option(
        "--from-start",
        is_flag=True,
        loads={"push", "pop"},
        help="Not from the end of each queue on. With pop nothing is sent.",
    ),
    _option("--delay-level", type=int, default=1, loads={"delay"}, help="1 is 1 s, 3 is 10 s."),
    _option(
        "--timer-delay", type=TIME, default=5.0, loads={"timer"}, help="Until a message is due."
    ),
    _option("--file", type=_FILE, required=True, loads={"mixed"}, help="What it consists of."),
    _option(
        "--serialize",
        type=click.Choice(["json", "rocketmq"]),
        default="json",
        help="Headers, as clients write them.",
    ),
    _option("--timeout", type=TIME, default=3.0, help="Until a request is given up."),
    _option(
        "--settle",
        type=TIME,
        default=10.0,
        loads=SENDERS,
        help="Without a new message until what is missing is lost.",
    ),
    _option(
        "--on-error",
        type=click.Choice(["go-on", "end"]),
        default="go-on",
        help="When a connection is lost.",
    ),
    _option("--verify", is_flag=True, loads=SENDERS, help="Account for each message."),
    _option(
        "--pid",
        "pids",
        type=click.IntRange(1),
        multiple=True,
        help="CPU, memory and disk bytes of this process, too.",
    ),
    _option("--hdr", type=NEW_FILE, help="Write the interval log of HdrHistogram."),
    _option("--json", "json_file", type=NEW_FILE, help="Write the result."),
    _option("--progress/--no-progress", default=None, help="A line a second.  [on a terminal]"),
]


def commands() -> Iterator[click.Command]:
    for load in LOADS:
        yield _command(load)


def _command(load: str) -> click.Command:
    def called(**words: Any) -> None:
        _run(load, words)

    made: Any = called
    for loads, option in reversed(_OPTIONS):
        if load in loads:
            made = option(made)
    command: click.Command = click.command(load, help=LOADS[load])(made)
    return command


def _properties(words: tuple[str, ...]) -> list[tuple[str, str]]:
    from pyrmq.bench.options import OptionError, check_property

    found = []
    for pair in words:
        name, _, value = pair.partition("=")
        try:
            check_property(name, value)
        except OptionError as e:
            raise click.BadParameter(str(e), param_hint="--property") from None
        found.append((name, value))
    return found


def _run(load: str, words: dict[str, Any]) -> None:
    from pyrmq.bench.options import OptionError, Options
    from pyrmq.bench.result import write_result
    from pyrmq.bench.run import run
    from pyrmq.bench.text import report
    from pyrmq.errors import ConfigError, PyrmqError
    from pyrmq.escape import escape

    known = {one.name for one in fields(Options)}
    given = {k: v for k, v in words.items() if k in known}
    for name in ("payload_files", "pids"):
        given[name] = list(given.get(name, ()))
    given["properties"] = _properties(given.get("properties", ()))
    given["tags"] = given.get("tags") or []
    try:
        access = Access.of(words)
        given["credentials"], given["tls"] = access.credentials, access.tls
    except ConfigError as e:
        raise click.UsageError(escape(str(e))) from None
    if not (given["namesrv"] or given["address"] or given["embedded"]):
        import os

        given["namesrv"] = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
    check_new_files({"--json": words["json_file"], "--hdr": words["hdr"]})
    show = words["progress"]
    line = _Line(sys.stderr.isatty()) if show or (show is None and sys.stderr.isatty()) else None
    try:
        result = run(Options(load, command=["pyrmq", *sys.argv[1:]], **given), line)
    except OptionError as e:
        raise click.UsageError(escape(str(e))) from None
    except PyrmqError as e:
        raise click.ClickException(escape(str(e))) from e
    finally:
        if line is not None:
            line.clear()
    click.echo(report(result))
    if words["json_file"] is not None:
        with written("--json", words["json_file"]):
            write_result(words["json_file"], result)
    if result.ended == "interrupted":
        raise click.exceptions.Exit(INTERRUPTED)
    v = result.verify
    if (
        result.ended == "error"
        or not result.messages
        or (v and (v.lost or v.twice or v.refused_received))
    ):
        raise click.exceptions.Exit(FAILED)


class _Line:
    """Each second's line: one that changes on a terminal."""

    def __init__(self, terminal: bool) -> None:
        self._terminal = terminal
        self._shown = False

    def __call__(self, snapshot: dict[str, Any]) -> None:
        from pyrmq.bench.text import progress

        text = progress(snapshot)
        if self._terminal:
            # What does not fit would stay on the screen as a line of its own.
            text = text[: shutil.get_terminal_size().columns - 1]
        sys.stderr.write(f"\r\x1b[K{text}" if self._terminal else f"{text}\n")
        sys.stderr.flush()
        self._shown = self._terminal

    def clear(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
