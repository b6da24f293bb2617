"""What all commands of `pyrmq admin` share: options, the connection, errors and exit codes."""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar

import click

from pyrmq.cli.access import Access, access_options

if TYPE_CHECKING:
    from pyrmq.admin.api import Admin
    from pyrmq.admin.outcome import Outcomes
    from pyrmq.cli.admin.view import View

T = TypeVar("T")
USAGE, FAILED, PARTLY, INTERRUPTED = 1, 2, 3, 130
MOST_PROBLEMS = 20
"""Parts that failed of which each is told; how many more there are is said."""


@dataclass(slots=True)
class Session:
    """One command that runs."""

    namesrv: str
    output: str
    timeout: float | None
    """Seconds for a request, if that was said."""
    debug: bool
    yes: bool = False
    watch: float | None = None
    access: Callable[[], Access] = Access.from_environment
    """What it connects with."""
    missed: list[str] = field(default_factory=list)
    """Brokers that should be there and were missing where the last `run` asked."""

    def run(
        self,
        work: Callable[[Admin], Awaitable[T]],
        *,
        prints: bool = False,
        progress: bool = True,
    ) -> T:
        """Runs `work` with an Admin that is connected; `progress` is shown unless it `prints` to
        the same terminal. Errors end the command with exit code 2, an interruption with 130."""
        import trio

        from pyrmq.admin.api import Admin
        from pyrmq.cli.progress_line import ProgressLine
        from pyrmq.cli.tools_file import expected, missed

        shown = progress and not (prints and sys.stdout.isatty())
        line = ProgressLine() if shown else None
        done: list[T] = []

        async def run() -> None:
            async with trio.open_nursery() as nursery:
                await nursery.start(_stop_on_signal, nursery.cancel_scope)
                access = self.access()
                async with Admin(
                    self.namesrv,
                    timeout=self.timeout,
                    progress=line,
                    credentials=access.credentials,
                    tls=access.tls,
                    expected=expected(self.namesrv),
                ) as admin:
                    done.append(await work(admin))
                    self.missed = missed(admin)
                nursery.cancel_scope.cancel()

        try:
            trio.run(run)
        except BaseException as e:
            if line:
                line.clear()
            self.fail(e)
        if line:
            line.clear()
        if not done:
            raise click.exceptions.Exit(INTERRUPTED)
        return done[0]

    def show(self, view: View) -> None:
        """Prints a view as --output says."""
        from pyrmq.cli.admin import view as views

        with printing():
            views.show(view, self.output)

    def aside(self, view: View) -> None:
        """Prints a view for people on stderr, before a question about it."""
        from contextlib import redirect_stdout

        from pyrmq.cli.admin import view as views

        with redirect_stdout(sys.stderr):
            views.show(view, "table")

    def report(self, work: Callable[[Admin], Awaitable[View]]) -> None:
        """Shows what `work` gives; with --watch again and again, until Ctrl-C."""
        import time

        while True:
            try:
                view = self.run(work)
            except click.exceptions.Exit as e:  # what failed was said; the next round may go well
                if not self.watch or e.exit_code in (USAGE, INTERRUPTED):
                    raise
            else:
                if self.watch and sys.stdout.isatty():
                    click.clear()
                elif self.watch and self.output == "yaml":
                    print("---")
                self.show(view)
                failed = [*self._once(view.failed), *self._untold(view.failed)]
                self._complain(failed)
                if not self.watch:
                    if failed:
                        raise click.exceptions.Exit(FAILED if view.all_failed else PARTLY)
                    return
            try:
                time.sleep(self.watch)
            except KeyboardInterrupt:
                raise click.exceptions.Exit(INTERRUPTED) from None

    def done(self, outcomes: Outcomes[Any], verb: str, *, count: str = "") -> None:
        """Shows what became of a change on each server; exit code 2 if all failed, 3 if some.
        `count`: the name of what the outcomes' values count."""
        from pyrmq.cli.admin.view import Column, View

        rows = [
            {
                "target": o.target,
                "broker": o.name or None,
                "ok": o.ok,
                "code": getattr(o.error, "code", None),
                "message": verb if o.ok else str(o.error),
                **({count: o.value} if count else {}),
            }
            for o in outcomes
        ]
        columns = (
            Column("TARGET", "target"),
            Column("BROKER", "broker"),
            Column("RESULT", lambda r: "ok" if r["ok"] else "failed",
                   style=lambda r: "green" if r["ok"] else "red"),
            *((Column(count.upper(), count, right=True),) if count else ()),
            Column("", "message"),
        )  # fmt: skip
        self.show(View(rows, rows, columns, empty="no server was asked"))
        problems = self._untold([str(o.error) for o in outcomes.failed])
        self._complain(problems)
        if outcomes.failed or problems:
            raise click.exceptions.Exit(PARTLY if outcomes.done else FAILED)

    def confirm(self, text: str, *, option: str = "--yes") -> None:
        """Asks before something is destroyed, unless --yes was given. Without a terminal it ends
        with exit code 1, and says which option does without the question."""
        from pyrmq.escape import escape

        if self.yes:
            return
        if not sys.stdin.isatty():
            raise click.UsageError(f"{escape(text)} Say {option}: nobody can be asked here")
        if not click.confirm(escape(text), err=True):
            raise click.exceptions.Exit(USAGE)

    def partly(self, problems: list[str], *, all_failed: bool = False) -> None:
        """Ends with 3 (2 with `all_failed`) after saying what failed, if anything did."""
        problems = [*self._once(problems), *self._untold(problems)]
        self._complain(problems)
        if problems:
            raise click.exceptions.Exit(FAILED if all_failed else PARTLY)

    def _once(self, problems: Sequence[str]) -> list[str]:
        """The problems; what was asked of a missing broker is one, whatever it was asked for."""
        found: dict[str, None] = {}
        for problem in problems:
            found[next((m for m in self.missed if problem.endswith(f": {m}")), problem)] = None
        return list(found)

    def _untold(self, told: Sequence[str]) -> list[str]:
        """Brokers that were missing, without those that are told already."""
        return [m for m in self.missed if not any(m.partition(" is missing")[0] in t for t in told)]

    @staticmethod
    def _complain(problems: Sequence[str]) -> None:
        from pyrmq.escape import escape

        for problem in problems[:MOST_PROBLEMS]:
            click.echo(f"Error: {escape(problem)}", err=True)
        if len(problems) > MOST_PROBLEMS:
            click.echo(f"Error: {len(problems) - MOST_PROBLEMS} more failed", err=True)

    def fail(self, error: BaseException) -> NoReturn:
        """Ends the command: pyrmq's own errors as a line each, others as they are."""
        from pyrmq.errors import ConfigError, PyrmqError, leaves
        from pyrmq.escape import escape

        parts = leaves(error)
        if self.debug:
            traceback.print_exception(error)
        for part in parts:
            if isinstance(part, click.ClickException | click.exceptions.Exit | BrokenPipeError):
                raise part
        if not all(isinstance(p, PyrmqError | OSError) for p in parts):
            raise error
        for part in parts:
            click.echo(f"Error: {escape(_text(part))}", err=True)
        usage = all(isinstance(p, ConfigError) for p in parts)
        raise click.exceptions.Exit(USAGE if usage else FAILED)


def _text(error: BaseException) -> str:
    server, text = getattr(error, "server", ""), str(error)
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return f"{server}: {text}" if server and server not in text else text


async def _stop_on_signal(scope: Any, task_status: Any) -> None:
    import trio

    if threading.current_thread() is not threading.main_thread():
        task_status.started()
        return
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        async for _ in signals:
            scope.cancel()


class printing:
    """A reader that has enough (`| head`) ends the output without a word."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            kind = BrokenPipeError
        if kind is None or not issubclass(kind, BrokenPipeError):
            return False
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True


class Seconds(click.FloatRange):
    """A number of seconds; `nan`, which is in every range, is none."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        seconds = super().convert(value, param, ctx)
        if seconds != seconds:
            self.fail(f"{value!r} is no number of seconds", param, ctx)
        return seconds


class Span(Seconds):
    """A length of time: a number of seconds, or `90s`, `30m`, `2h`, `1d`."""

    name = "time"
    _UNITS: ClassVar = {"s": 1, "m": 60, "h": 3600, "d": 86_400}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        text = str(value)
        if (
            len(text) < 10
            and text[:-1].isascii()
            and text[:-1].isdecimal()
            and text[-1] in self._UNITS
        ):
            value = int(text[:-1]) * self._UNITS[text[-1]]
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as e:
            if "is not a valid" not in e.message:
                raise
        self.fail(f"{text!r} is no length of time: seconds, or 90s, 30m, 2h, 1d", param, ctx)


namesrv_option = click.option(
    "-n",
    "--namesrv",
    envvar="NAMESRV_ADDR",
    default="127.0.0.1:9876",
    show_default=True,
    show_envvar=True,
    help="Name servers, `host:port;host:port`.",
)
_OPTIONS = (
    namesrv_option,
    click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json", "yaml"]),
        default="table",
        show_default=True,
        help="For people, or for programs.",
    ),
    click.option(
        "--timeout",
        type=Seconds(0.1, 3600),
        metavar="SECONDS",
        help="For one request to a server.  [default: 5, more for what takes a server longer]",
    ),
    click.option("--debug", is_flag=True, help="Show where an error comes from."),
)
_WATCH = click.option(
    "--watch",
    type=Seconds(0.1, 86_400),
    metavar="SECONDS",
    help="Show it again and again, so often.",
)
_YES = click.option("-y", "--yes", is_flag=True, help="Do not ask.")


def session(
    *, watch: bool = False, destroys: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Adds the common options to a command, which gets a Session first; `watch`: it is a status
    that can be watched; `destroys`: it asks before it does it."""

    def add(command: Callable[..., None]) -> Callable[..., None]:
        @access_options
        @wraps(command)
        def run(
            namesrv: str,
            output: str,
            timeout: float | None,
            debug: bool,
            access: Callable[[], Access],
            **rest: Any,
        ) -> None:
            asked = Session(namesrv, output, timeout, debug, access=access)
            if watch:
                asked.watch = rest.pop("watch")
            if destroys:
                asked.yes = rest.pop("yes")
            command(asked, **rest)

        options = [*_OPTIONS, *([_WATCH] if watch else []), *([_YES] if destroys else [])]
        for option in reversed(options):
            run = option(run)
        return run

    return add


def where(command: Callable[..., None]) -> Callable[..., None]:
    """Adds --broker and --cluster, of which one has to be given."""

    @wraps(command)
    def run(*args: Any, broker: str | None, cluster: str | None, **rest: Any) -> None:
        if (broker is None) == (cluster is None):
            raise click.UsageError("say one of --broker HOST:PORT and --cluster NAME")
        command(*args, broker=broker, cluster=cluster, **rest)

    run = click.option("-c", "--cluster", metavar="NAME", help="All brokers of this cluster.")(run)
    return click.option("-b", "--broker", metavar="HOST:PORT", help="This broker only.")(run)
