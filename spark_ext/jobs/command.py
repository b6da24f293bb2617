"""What the commands of all jobs have in common: options, errors, where results go."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import wraps
from typing import Any

import click

from pyrmq.cli.access import Access, access_options
from spark_ext import times
from spark_ext.jobs import report
from spark_ext.jobs.choice import ENGINES, choose
from spark_ext.jobs.early import is_elsewhere, need_folder_of
from spark_ext.jobs.engine import FORMATS, MODES, Engine, Table
from spark_ext.jobs.errors import JobError, first_cause
from spark_ext.jobs.source import Source
from spark_ext.option_table import SECRETS


class Moment(click.ParamType):  # type: ignore[type-arg]
    """A time: milliseconds since 1970, or ISO 8601 (UTC unless it says otherwise); gives ms.
    What the source refuses as a time is refused: seconds, and micro- and nanoseconds."""

    name = "time"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        try:
            return times.moment(str(value))
        except ValueError as e:
            self.fail(str(e), param)


_SECRETS = {name.lower() for name in SECRETS}


class Pair(click.ParamType):  # type: ignore[type-arg]
    name = "name=value"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        name, found, text = str(value).partition("=")
        if name.strip().lower() in _SECRETS:
            self.fail(
                f"{name} on a command line is seen by all users of this machine: use "
                "--secret-key-file FILE, or the environment",
                param,
            )
        if not found or not name:
            self.fail(f"{value!r} is not NAME=VALUE", param)
        return name, text


@dataclass(frozen=True)
class Output:
    """Where a result goes besides the terminal."""

    path: str | None
    kind: str
    mode: str
    plot: str | None

    def write(self, engine: Engine, table: Table) -> None:
        if self.path:
            engine.write(table, self.path, self.kind, self.mode)
            click.echo(f"\ntable: {self.path} ({self.kind})")

    def draw(self, plot: Callable[[str, str], None], where: str) -> None:
        """`plot` gets the path and the note that stands in the picture: `where` its numbers are
        from, and when they were measured."""
        if self.plot:
            plot(self.plot, f"{where}\nmeasured {report.moment(datetime.now(UTC))}")
            click.echo(f"plot: {self.plot}")


def _apply(options: Iterable[Callable[[Any], Any]], command: Any) -> Any:
    for option in reversed(list(options)):
        command = option(command)
    return command


_SOURCE = (
    click.argument("paths", nargs=-1, metavar="[STORE]..."),
    click.option("-n", "--namesrv", help="Read through the brokers of these name servers instead."),
    click.option("--broker-name", multiple=True, help="Name of a store's broker, one per STORE."),
    click.option("--since", type=Moment(), help="Store time to begin at: ms, or ISO 8601 in UTC."),
    click.option("--until", type=Moment(), help="Store time to end before."),
    click.option(
        "-o", "--option", "options", type=Pair(), multiple=True, help="An option of the source."
    ),
)
_ENGINE = click.option(
    "--engine",
    "wanted",
    type=click.Choice(ENGINES),
    default="auto",
    show_default=True,
    help="local: in this process, which takes no time to start; auto: local for logs of this "
    "machine up to 16 GiB, else Spark.",
)
_SPARK = (
    click.option("--master", help="Spark's master [default: SPARK_MASTER or local[*]]"),
    click.option("--conf", type=Pair(), multiple=True, help="A setting of the Spark session."),
)


def connecting(access: Callable[[], Access] | None) -> dict[str, str]:
    """Options of the source and the sink for what a command connects with; None: it does not."""
    if access is None:
        return {}
    found = access()
    options: dict[str, object] = {}
    if (signing := found.credentials) is not None:
        options |= {"accessKey": signing.access_key, "secretKey": signing.secret_key}
    if (tls := found.tls) is not None:
        options |= {
            "tls": "true",
            "tlsCaFile": tls.ca,
            "tlsCertFile": tls.cert,
            "tlsKeyFile": tls.key,
            "tlsKeyPassword": tls.key_password,
            "tlsServerName": tls.server_hostname,
            "tlsAnyName": None if tls.check_hostname else "true",
            "tlsInsecure": "true" if tls.insecure else None,
        }
    return {name: str(value) for name, value in options.items() if value is not None}


def source_options(command: Callable[..., None]) -> Callable[..., None]:
    """STORE... and what says which messages; the command gets a `source`, or None if neither a
    store nor a name server was named and it has `check` set."""

    @wraps(command)
    def run(
        paths: tuple[str, ...],
        namesrv: str | None,
        broker_name: tuple[str, ...],
        since: int | None,
        until: int | None,
        options: tuple[tuple[str, str], ...],
        access: Callable[[], Access],
        **rest: Any,
    ) -> None:
        source = None
        if paths or namesrv or not rest.get("check"):
            every = {**connecting(access if namesrv else None), **dict(options)}
            source = Source(
                paths, namesrv, broker_name, since, until, every, lambda: connecting(access)
            )
        command(source=source, **rest)

    return _apply(_SOURCE, access_options(run))  # type: ignore[no-any-return]


def need_matplotlib() -> None:
    """JobError without it: a job that cannot draw does not begin."""
    if importlib.util.find_spec("matplotlib") is None:
        raise JobError("plots need matplotlib: pip install 'pyrmq-broker[plot]'")


PLOTS = (".jpg", ".pdf", ".png", ".svg", ".webp")


def output_options(mode: str = "error") -> Callable[[Callable[..., None]], Callable[..., None]]:
    """--out, --format, --mode, --plot; the command gets an `output`."""
    options = (
        click.option("--out", help="Folder for the table; any path or URI that Spark writes to."),
        click.option(
            "--format", "kind", type=click.Choice(FORMATS), default="parquet", show_default=True
        ),
        click.option("--mode", type=click.Choice(MODES), default=mode, show_default=True),
        click.option("--plot", metavar="FILE.png", help="Draw the plot (extra `plot`)."),
    )

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(out: str | None, kind: str, mode: str, plot: str | None, **rest: Any) -> None:
            if out and mode == "error" and os.path.exists(out):
                # Said before the work; what is no local path is checked when it is written.
                raise click.ClickException(f"{out} exists: choose the mode append or overwrite")
            if plot and not plot.lower().endswith(PLOTS):
                raise click.ClickException(
                    f"{plot}: a plot's name ends in one of {', '.join(PLOTS)}"
                )
            if plot:
                need_folder_of(plot)
                need_matplotlib()
            command(output=Output(out, kind, mode, plot), **rest)

        return _apply(options, run)  # type: ignore[no-any-return]

    return decorate


def engine_options(command: Callable[..., None]) -> Callable[..., None]:
    """--engine, --master, --conf; the command, which has a source and an output, gets an `engine`
    that can read the one and write the other."""

    @wraps(command)
    def run(
        wanted: str,
        master: str | None,
        conf: tuple[tuple[str, str], ...],
        source: Source,
        output: Output,
        **rest: Any,
    ) -> None:
        outputs = (output.path,) if output.path else ()
        engine = choose(
            wanted,
            source.paths,
            source.name_server,
            outputs=outputs,
            master=master,
            settings=dict(conf),
        )
        with readable_errors(engine):
            command(engine=engine, source=source, output=output, **rest)

    return _apply((_ENGINE, *_SPARK), run)  # type: ignore[no-any-return]


def archive_engine_options(command: Callable[..., None]) -> Callable[..., None]:
    """The same for a command with the archive `root`, which reads that if it has no source."""

    @wraps(command)
    def run(
        wanted: str,
        master: str | None,
        conf: tuple[tuple[str, str], ...],
        root: str,
        **rest: Any,
    ) -> None:
        source: Source | None = rest.get("source")
        output: Output | None = rest.get("output")
        if wanted == "auto" and is_elsewhere(root):
            wanted = "spark"
        outputs = [root] if source else []
        if output and output.path:
            outputs.append(output.path)
        engine = choose(
            wanted,
            source.paths if source else (root,),
            source.name_server if source else None,
            outputs=outputs,
            master=master,
            settings=dict(conf),
        )
        with readable_errors(engine):
            command(engine=engine, root=root, **rest)

    return _apply((_ENGINE, *_SPARK), run)  # type: ignore[no-any-return]


def plain_engine_options(command: Callable[..., None]) -> Callable[..., None]:
    """--engine, --master, --conf for a command that chooses by itself: it gets these by name,
    --engine as `wanted`."""
    return _apply((_ENGINE, *_SPARK), command)  # type: ignore[no-any-return]


class readable_errors:
    """Turns what Spark raises into a JobError with the cause alone."""

    def __init__(self, engine: Engine) -> None:
        self._spark = engine.name == "spark"

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if not self._spark or error is None:
            return
        from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        if isinstance(error, PySparkException | Py4JJavaError):
            raise JobError(first_cause(str(error))) from error


def run_alone(command: click.Command) -> None:
    """`python -m spark_ext.jobs.NAME`: the command with errors as one line."""
    from pyrmq.errors import PyrmqError
    from pyrmq.escape import escape

    try:
        command.main(prog_name=f"python -m spark_ext.jobs.{command.name}")
    except (PyrmqError, OSError) as e:
        click.echo(f"Error: {escape(e)}", err=True)
        sys.exit(1)
