"""`pyrmq …`: thin commands; what they need is imported when they run."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from pyrmq.version import __version__

INTERRUPTED = 130


def _streams() -> None:
    """stdout and stderr that take everything: one that is closed loses it (`>&-`), letters that
    its encoding has not are escaped."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 (until the process ends)
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _show_warnings() -> None:
    """On stderr, as text alone; servers set up logs of their own."""
    import logging

    from pyrmq.logs.lines import LineFormatter

    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter("%(message)s"))
    logging.basicConfig(level="WARNING", handlers=[handler])


def _tell_of_pyrmq() -> None:
    """PyRMQ beside this package is told on stderr; the command runs as far as it can."""
    from pyrmq.escape import escape
    from pyrmq.installation import problem, untold

    if text := untold(problem()):
        click.echo(f"warning: {escape(text)}", err=True)


class _Group(click.Group):
    """Shows pyrmq's own errors as one line."""

    def invoke(self, ctx: click.Context) -> Any:
        _streams()
        _tell_of_pyrmq()  # first: importing the errors warns of the same
        from pyrmq.errors import PyrmqError, leaves
        from pyrmq.escape import escape

        _show_warnings()
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:  # while modules are imported, or between requests
            raise click.exceptions.Exit(INTERRUPTED) from None
        except (PyrmqError, OSError, BaseExceptionGroup) as e:
            errors = leaves(e)
            if not all(isinstance(leaf, PyrmqError | OSError) for leaf in errors):
                raise
            failure = click.ClickException(escape("; ".join(map(str, errors))))
            unprinted = not any(isinstance(leaf, PyrmqError) for leaf in errors)
            if unprinted and ctx.invoked_subcommand in ("admin", "mqadmin"):
                failure.exit_code = 2  # type: ignore[misc] # 1 is for command lines there
            raise failure from e


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="pyrmq")
def main() -> None:
    """pyrmq: RocketMQ's broker, name server and client in Python."""


def _add_commands() -> None:
    from pyrmq.cli import bench, config, deploy, doctor, messages, pipeline, serve, store, tls
    from pyrmq.cli.admin import admin
    from pyrmq.cli.completion import completion
    from pyrmq.cli.console import console
    from pyrmq.cli.health import health
    from pyrmq.cli.mcp import mcp
    from pyrmq.cli.mqadmin_command import mqadmin

    for command in (
        serve.server,
        serve.namesrv,
        serve.broker,
        messages.send,
        messages.consume,
        store.store,
        tls.tls,
        bench.bench,
        config.config,
        console,
        deploy.deploy,
        doctor.doctor,
        completion,
        health,
        mcp,
        admin,
        mqadmin,
        pipeline.pipeline,
    ):
        main.add_command(command)


_add_commands()

if __name__ == "__main__":
    sys.exit(main())
