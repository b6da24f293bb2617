"""Running a command of mqadmin: its name, its options, the connection, its exit code.

0: done (also `-h`); 1: the command line is invalid; 2: it failed; 3: a part of it failed.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from contextlib import suppress

from pyrmq.admin.near import near
from pyrmq.cli.mqadmin.options import Command, UsageError, Values, parse, usage
from pyrmq.cli.mqadmin.output import Output, describe
from pyrmq.cli.mqadmin.table import COMMANDS

OK, USAGE, FAILED, PARTLY = 0, 1, 2, 3
INTERRUPTED = 130
NOBODY = "127.0.0.1:1"
"""A name server for commands that ask none."""


def main(arguments: Sequence[str], output: Output | None = None) -> int:
    """Runs a command line without the program's name; returns the exit code."""
    out = output or Output()
    try:
        code = _main(list(arguments), out)
        out.flush()
    except BrokenPipeError:  # the reader has enough (`| head`)
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except OSError as e:  # the disk is full
        out.note(f"cannot print: {e.strerror or e}")
        return FAILED
    return code


def _main(arguments: list[str], out: Output) -> int:
    debug = "--debug" in arguments
    arguments = [a for a in arguments if a != "--debug"]
    if arguments and arguments[0].lower() in ("-h", "--help", "help"):
        del arguments[0]
        arguments[1:] = ["-h"]
    if arguments in ([], ["-h"]):
        _list(out)
        return OK
    name, *rest = arguments
    command = find(name)
    if command is None:
        out.note(f"The sub command {name} not exist{near(name, COMMANDS)}")
        return USAGE
    try:
        values = parse(command, rest)
    except UsageError as e:
        return _misused(command, e, out)
    if values.has("help"):
        for line in usage(command):
            out.line(line)
        return OK
    return _run(command, values, out, debug)


def find(name: str) -> Command | None:
    """The command of a name, in any case."""
    known = {one.lower(): one for one in COMMANDS}
    exact = known.get(name.lower())
    if exact is None:
        return None
    module = importlib.import_module(f"pyrmq.cli.mqadmin.{COMMANDS[exact][0]}")
    found: Command = module.COMMANDS[exact]
    return found


def _list(out: Output) -> None:
    out.line("The most commonly used mqadmin commands are:")
    for name, (_, line) in COMMANDS.items():
        out.line(f"   {name:<35} {line}")
    out.line()
    out.line("See 'pyrmq mqadmin help <command>' for more information on a specific command.")


def _misused(command: Command, error: UsageError, out: Output) -> int:
    out.note(str(error))
    for line in usage(command):
        out.note(line)
    return USAGE


def _run(command: Command, values: Values, out: Output, debug: bool) -> int:
    import trio

    from pyrmq.admin.api import Admin
    from pyrmq.cli.tools_file import credentials, expected, missed
    from pyrmq.errors import ConfigError, PyrmqError, leaves

    namesrv = values.get("namesrvAddr") or os.environ.get("NAMESRV_ADDR", "")
    if not namesrv and not command.local and command.needs_name_server:
        out.note("no name server is known: give -n host:port, or set NAMESRV_ADDR")
        return USAGE
    try:
        Admin(namesrv or NOBODY)
        signs = credentials()
        should_be = expected(namesrv) if namesrv and not command.local else None
    except ConfigError as e:
        return _misused(command, UsageError(str(e)), out)
    interrupted = False

    async def work() -> None:
        nonlocal interrupted
        async with trio.open_nursery() as nursery:
            await nursery.start(stop_on_signal, nursery.cancel_scope)
            known = namesrv or NOBODY
            if command.local:
                await command.run(Admin(known), values, out)
            else:
                progress = out.progress if command.progress else None
                async with Admin(
                    known, progress=progress, credentials=signs, expected=should_be
                ) as admin:
                    await command.run(admin, values, out)
                    out.lacks(missed(admin))
            nursery.cancel_scope.cancel()

    async def stop_on_signal(
        scope: trio.CancelScope, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        nonlocal interrupted
        if threading.current_thread() is not threading.main_thread():
            task_status.started()  # a test's thread: signals are the main thread's
            return
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            task_status.started()
            async for _ in signals:
                interrupted = True
                scope.cancel()

    try:
        try:
            trio.run(work)
        finally:
            out.progress.clear()
            out.finish()
    except BaseException as error:
        parts = leaves(error)
        if debug:
            traceback.print_exc()
        for part in parts:
            if isinstance(part, UsageError):
                return _misused(command, part, out)
        for part in parts:
            if isinstance(part, BrokenPipeError):
                raise part from None
        if not all(isinstance(p, PyrmqError | OSError) for p in parts):
            raise
        for part in parts:
            out.note(f"{command.name} failed: {describe(part)}")
        return PARTLY if out.successes else FAILED
    if interrupted:
        return INTERRUPTED
    return out.exit_code
