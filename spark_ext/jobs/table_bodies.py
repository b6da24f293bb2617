"""The options of `pyrmq pipeline table write` that say how bodies become columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from pyrmq.tables.bodies.frames import HEADERS
from pyrmq.tables.bodies.plan import BodyPlan
from pyrmq.tables.bodies.spec import FORMS, LAYOUTS, spec
from pyrmq.tables.bodies.staging import ON_ERROR
from spark_ext.jobs.errors import JobError


def body_options(command: Callable[..., None]) -> Callable[..., None]:
    """--body and what belongs to it; the command gets `body`, a BodyPlan or None for bytes, and
    `on_error`."""

    def wrapped(
        body: str,
        body_schema: tuple[str, ...],
        message: str,
        body_header: str,
        body_columns: str,
        keep_body: bool,
        on_error: str | None,
        **others: Any,
    ) -> None:
        given = spec(body, body_schema, message, body_header, body_columns, keep_body)
        plan = BodyPlan(given)
        if on_error is not None and not plan.decodes:
            raise JobError("--on-error is for bodies that are decoded: give --body as well")
        command(body=plan, on_error=on_error or ON_ERROR[0], **others)

    wrapped.__doc__ = command.__doc__
    wrapped.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    found: Callable[..., None] = wrapped
    options = (
        click.option(
            "--body",
            type=click.Choice(FORMS),
            default=FORMS[0],
            show_default=True,
            help="Form of the bodies: bytes, or what their schema makes columns of.",
        ),
        click.option(
            "--body-schema",
            multiple=True,
            help="File with a JSON Schema, an Avro schema or a descriptor set of Protobuf. With "
            "Avro it may be repeated, also as ID=FILE: the last one gives the columns.",
        ),
        click.option("--message", default="", help="With --body protobuf: the message."),
        click.option(
            "--body-header",
            type=click.Choice(HEADERS),
            default=HEADERS[0],
            show_default=True,
            help="What stands before the payload of each body.",
        ),
        click.option(
            "--body-columns",
            type=click.Choice(LAYOUTS),
            default=LAYOUTS[0],
            show_default=True,
            help="Fields in a column `value`, or each as a column of the table.",
        ),
        click.option("--keep-body", is_flag=True, help="Have the bytes in the column body, too."),
        click.option(
            "--on-error",
            type=click.Choice(ON_ERROR),
            help="If a body does not fit: stop (the default), leave it out, or keep it in the "
            "table TABLE_dlq.",
        ),
    )
    for option in reversed(options):
        found = option(found)
    return found
