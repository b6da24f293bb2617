"""`pyrmq bench compare`, `sweep` and `peers`: what stands around single runs."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import click

from pyrmq.cli.bench_files import NEW_FILE, check_new_files, written
from pyrmq.cli.bench_loads import INTERRUPTED, LOADS, SENDERS, TIME, Between

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_UNITS = {"us": 1.0, "ms": 1e3, "s": 1e6}
FAILED = 1
KNEES = SENDERS - {"oneway"}
"""Loads that have a rate and measure a latency."""


def _time(ctx: click.Context, param: click.Parameter, value: str) -> float:
    """50ms, 800us, 1.5s: microseconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(us|ms|s)", value)
    if match is None or not 0 < float(match[1]) < 1e9:
        raise click.BadParameter(f"{value!r} is no time above 0: write it as 50ms, 800us or 1.5s")
    return float(match[1]) * _UNITS[match[2]]


def _rates(ctx: click.Context, param: click.Parameter, value: str) -> tuple[float, ...]:
    """1000,2000,5000: messages a second."""
    words = [word.strip() for word in value.split(",")] if value else []
    if not all(re.fullmatch(r"\d+(\.\d+)?", word) and 0 < float(word) <= 1e9 for word in words):
        raise click.BadParameter(f"{value!r} is no list of rates: write it as 1000,2000,5000")
    return tuple(map(float, words))


def _say(text: str) -> None:
    from pyrmq.escape import escape

    click.echo(escape(text), err=True)


@click.command()
@click.argument("a", type=click.Path(exists=True, path_type=Path))
@click.argument("b", type=click.Path(exists=True, path_type=Path))
def compare(a: Path, b: Path) -> None:
    """Compare two results of one load: what B has in times of A.

    A and B are files of `--json`, or folders of such files with repeated runs. With two or more
    runs on each side the spread is known; a spread larger than the difference is said.
    """
    from pyrmq.bench.compare import compare as compared
    from pyrmq.bench.compare import table
    from pyrmq.bench.runs import read_runs
    from pyrmq.escape import escape

    names = escape(str(a)), escape(str(b))
    click.echo(table(compared(read_runs(a), read_runs(b), names)))


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    options_metavar="[OPTIONS OF SWEEP]",
)
@click.option(
    "--from",
    "start",
    type=click.FloatRange(min=1),
    default=1000.0,
    show_default=True,
    help="First rate, messages/s.",
)
@click.option(
    "--to",
    "most",
    type=click.FloatRange(min=1),
    default=10_000_000.0,
    help="Highest rate.  [default: 10 million]",
)
@click.option(
    "--factor",
    type=click.FloatRange(min=1, min_open=True),
    default=2.0,
    show_default=True,
    help="Each rate is so many times the one before, until one breaks.",
)
@click.option(
    "--precision",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.05,
    show_default=True,
    help="End when the knee is known so well.",
)
@click.option(
    "--rates",
    callback=_rates,
    default="",
    metavar="LIST",
    help="Measure these rates, as 1000,2000,5000.",
)
@click.option(
    "--p99",
    callback=_time,
    metavar="TIME",
    default="50ms",
    show_default=True,
    help="A rate breaks if p99 is above this: 50ms, 800us, 1s.",
)
@click.option(
    "--reach",
    type=click.FloatRange(0, 1),
    default=0.98,
    show_default=True,
    help="A rate breaks if less than this part of it is reached.",
)
@click.option(
    "--backlog",
    callback=_time,
    metavar="TIME",
    default="500ms",
    show_default=True,
    help="A rate breaks if more messages wait at the end than it has in this time.",
)
@click.option(
    "--errors",
    type=click.FloatRange(0, 1),
    default=0.0,
    show_default=True,
    help="A rate breaks if more than this part of the messages fails.",
)
@click.option(
    "--again",
    type=click.IntRange(0, 10),
    default=1,
    show_default=True,
    help="Measure a rate that broke so often once more.",
)
@click.option("--json", "json_file", type=NEW_FILE, help="Write all results here.")
@click.option("--plot", "plot_file", type=NEW_FILE, help="Draw latency over rate here, as SVG.")
@click.argument("load")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def sweep(
    load: str, arguments: tuple[str, ...], rates: tuple[float, ...], json_file: Path | None,
    plot_file: Path | None, p99: float, reach: float, backlog: float, errors: float, **how: Any,
) -> None:  # fmt: skip
    """Find the knee of a load: the highest rate before p99 or the backlog breaks.

    Options of the sweep stand before LOAD, those of the load behind it:

        pyrmq bench sweep --p99 20ms --plot knee.svg send -n 127.0.0.1:9876 --size 1024
    """
    from pyrmq.bench import child
    from pyrmq.bench.knee import Limits
    from pyrmq.bench.result import Result, write_file
    from pyrmq.bench.runs import write_json
    from pyrmq.bench.sweep import plot
    from pyrmq.bench.sweep import sweep as swept

    refused = (
        ("--rate", "the sweep chooses it"),
        ("-r", "the sweep chooses it"),
        ("--json", "put it before the load"),
        ("--hdr", "each rate would write it again"),
        ("--help", "see `pyrmq bench LOAD --help`"),
        ("-h", "see `pyrmq bench LOAD --help`"),
    )
    for own, why in refused:
        # A short option may have its value behind it without a blank.
        signs = own if len(own) == 2 else f"{own}="
        if any(word == own or word.startswith(signs) for word in arguments):
            raise click.UsageError(f"{own} cannot be given to the load of a sweep: {why}")
    if load.startswith("-"):
        raise click.UsageError(
            f"no such option of sweep: {load}. Options of the load stand behind it"
        )
    if load not in LOADS:
        raise click.UsageError(f"no load {load!r}: one of {', '.join(sorted(KNEES))}")
    if load not in KNEES:
        why = "measures no latency" if load in SENDERS else "knows no rate"
        raise click.UsageError(f"{load} {why}, so it has no knee")
    if how["most"] < how["start"]:
        raise click.UsageError(f"--to {how['most']:g} is below --from {how['start']:g}")

    check_new_files({"--json": json_file, "--plot": plot_file})

    def run(rate: float) -> Result:
        return child.run(load, [*arguments, "--rate", f"{rate:g}"], quiet=True)

    limits = Limits(p99, reach, backlog / 1e6, errors)
    found = swept(load, arguments, run, limits, rates=rates, say=_say, **how)
    click.echo(found.search.verdict)
    if json_file is not None:
        with written("--json", json_file):
            write_json(json_file, found.to_json())
    if plot_file is not None and found.search.steps:
        with written("--plot", plot_file):
            try:
                write_file(plot_file, plot(found))
            except ValueError:
                raise click.ClickException("--plot: there is no latency to draw") from None
    if found.search.interrupted:
        raise click.exceptions.Exit(INTERRUPTED)
    if found.search.held is None:
        raise click.exceptions.Exit(FAILED)


@click.command()
@click.option(
    "--peer",
    "chosen",
    multiple=True,
    type=click.Choice(("floor", "pyrmq", "apache", "kafka", "nats")),
    help="Only this one; may be given several times.  [default: all]",
)
@click.option(
    "--load",
    "loads",
    multiple=True,
    metavar="NAME",
    help="Only this load; may be given several times.  [default: a quarter of an hour of them]",
)
@click.option("--full", is_flag=True, help="All loads, and longer windows: an hour or less.")
@click.option(
    "--flush",
    type=click.Choice(("ASYNC_FLUSH", "SYNC_FLUSH", "both")),
    default="both",
    show_default=True,
    help="Only loads where a send is answered so.",
)
@click.option(
    "--duration",
    type=Between(TIME, 0.1, 3600),
    help="Of a window.  [default: 3s; --full: 5s]",
)
@click.option(
    "--warmup",
    type=Between(TIME, 0, 600),
    default="1s",
    show_default=True,
    help="Load before it.",
)
@click.option(
    "--prepare",
    type=Between(TIME, 0, 600),
    help="Each load before a JVM's first window.  [default: 8s; --full: 15s]",
)
@click.option(
    "--rounds",
    type=click.IntRange(1, 100),
    default=3,
    show_default=True,
    help="Windows of each peer and load, in turns.",
)
@click.option("--dir", "directory", type=_FOLDER, help="Where stores are made: the disk measured.")
@click.option("--heap", default="2g", show_default=True, help="Heap of a broker's JVM.")
@click.option("--apache-home", type=_FOLDER, help="An unpacked release.  [default: by Maven]")
@click.option("--apache-version", default="5.3.3", show_default=True, help="Which one by Maven.")
@click.option("--kafka-home", type=_FOLDER, help="An unpacked release of Kafka.")
@click.option("--nats", type=_FILE, help="The program `nats`, with `nats-server` beside it.")
@click.option("--install", is_flag=True, help="Fetch Kafka (Maven) and NATS (Go) if missing.")
@click.option("--from", "source", type=_FILE, help="Measure nothing: read an earlier --json.")
@click.option("--json", "json_file", type=NEW_FILE, help="Write everything measured here.")
@click.option("--html", type=NEW_FILE, help="Write a page with tables and plots here.")
@click.option("--markdown", "markdown_file", type=NEW_FILE, help="Write the tables here.")
def peers(
    chosen: tuple[str, ...], loads: tuple[str, ...], full: bool, flush: str,
    duration: float | None, warmup: float, prepare: float | None, rounds: int,
    directory: Path | None, heap: str, source: Path | None,
    json_file: Path | None, html: Path | None, markdown_file: Path | None, **places: Any,
) -> None:  # fmt: skip
    """Measure message brokers on this machine, in turns.

    pyrmq, the floor (the least that a broker can do) and Apache RocketMQ get the same requests;
    Kafka and NATS JetStream are loaded by their own clients. What is not installed is left out, and
    the report says how to get it.
    """
    from pyrmq.bench.peers import turns
    from pyrmq.bench.peers.known import KEYS
    from pyrmq.bench.peers.known import peers as known
    from pyrmq.bench.peers.loads import ASYNC, FEW, LOADS
    from pyrmq.bench.peers.markdown import markdown
    from pyrmq.bench.peers.page import page
    from pyrmq.bench.peers.peer import Plan
    from pyrmq.bench.peers.report import read_report, write_report
    from pyrmq.bench.result import write_file

    names = [load.name for load in LOADS]
    for name in loads:
        if name not in names:
            raise click.BadParameter(f"{name!r} is none of {', '.join(names)}", param_hint="--load")
    if not re.fullmatch(r"\d+[kmgKMG]", heap):
        raise click.BadParameter(
            f"{heap!r} is no size: write it as 2g or 512m", param_hint="--heap"
        )
    check_new_files({"--json": json_file, "--html": html, "--markdown": markdown_file})
    if source is not None:
        report = read_report(source)
    else:
        few = loads or (names if full else FEW)
        wanted = [load for load in LOADS if load.name in few and flush in ("both", load.flush)]
        if not wanted:
            raise click.UsageError(f"none of these loads is one with {flush}")
        seconds = duration or (5.0 if full else 3.0)
        before = (15.0 if full else 8.0) if prepare is None else prepare
        plan = Plan(ASYNC, seconds, warmup, before, rounds, directory, heap)
        command = ["pyrmq", *sys.argv[1:]]
        report = turns.run(known(chosen or KEYS, **places), wanted, plan, command, _say)
    text = markdown(report)
    if not (html or markdown_file):
        click.echo(text, nl=False)
    if json_file is not None:
        with written("--json", json_file):
            write_report(json_file, report)
    if html is not None:
        with written("--html", html):
            write_file(html, page(report))
    if markdown_file is not None:
        with written("--markdown", markdown_file):
            write_file(markdown_file, text)
    if source is None and report.interrupted:
        raise click.exceptions.Exit(INTERRUPTED)
