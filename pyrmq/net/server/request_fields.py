"""Ext fields of a request that a server needs."""

from __future__ import annotations

from pyrmq.engine import Command
from pyrmq.errors import ResponseError
from pyrmq.model.codes import ResponseCode


def text(command: Command, name: str) -> str:
    """A field that must be there."""
    value = command.ext.get(name)
    if value is None:
        raise ResponseError(f"the custom field <{name}> is null", ResponseCode.SYSTEM_ERROR)
    return value
