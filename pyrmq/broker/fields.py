"""Typed ext fields of a request, with the errors that clients expect."""

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


def _parse(name: str, value: str, bits: int) -> int:
    try:
        if len(value) > 20:
            raise ValueError
        number = int(value)
    except ValueError:
        number = 1 << 64
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise ResponseError(
            f"the custom field <{name}> is no int{bits}: {value[:32]!r}", ResponseCode.SYSTEM_ERROR
        )
    return number


def int32(command: Command, name: str, default: int | None = None) -> int:
    value = command.ext.get(name)
    if value is None and default is not None:
        return default
    return _parse(name, text(command, name), 32)


def int64(command: Command, name: str, default: int | None = None) -> int:
    value = command.ext.get(name)
    if value is None and default is not None:
        return default
    return _parse(name, text(command, name), 64)


def flag(command: Command, name: str, default: bool = False) -> bool:
    value = command.ext.get(name)
    return default if value is None else value.lower() == "true"
