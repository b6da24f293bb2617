"""Reading answers: the code, and ext fields that have to be numbers."""

from __future__ import annotations

from pyrmq.engine import Command
from pyrmq.errors import ProtocolError, ResponseError
from pyrmq.model.codes import ResponseCode

MAX_NUMBER = 2**63 - 1


def check_success(answer: Command) -> Command:
    """The answer, if its code is SUCCESS; the ResponseError of its code otherwise."""
    if answer.code != ResponseCode.SUCCESS:
        raise ResponseError.of(answer.code, answer.remark or "")
    return answer


def number(answer: Command, name: str) -> int:
    """An ext field that has to be an offset: -1 to 2^63-1. ProtocolError."""
    try:
        value = int(answer.ext[name])
    except (KeyError, ValueError) as e:
        raise ProtocolError(f"answer without {name}") from e
    if not -1 <= value <= MAX_NUMBER:
        raise ProtocolError(f"answer with {name}={value}")
    return value
