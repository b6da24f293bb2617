"""Enumerations that users get print as names."""

from __future__ import annotations

import inspect
import json
from enum import Enum

import pytest

import pyrmq
from pyrmq import TransactionState

PUBLIC = [
    found
    for name in pyrmq._HOME
    if inspect.isclass(found := getattr(pyrmq, name)) and issubclass(found, Enum)
]


def test_there_are_some() -> None:
    assert {cls.__name__ for cls in PUBLIC} == {
        "CompressionType",
        "ConsumeFrom",
        "ConsumeResult",
        "ConsumeOutcome",
        "MessageModel",
        "SendStatus",
        "TransactionState",
    }


@pytest.mark.parametrize("member", [member for cls in PUBLIC for member in cls], ids=repr)
def test_as_text(member: Enum) -> None:
    assert str(member) == member.name
    assert f"{member}" == "%s" % member == "{}".format(member) == member.name  # noqa: UP031, UP032
    assert f"{member:>20}" == member.name.rjust(20)


def test_a_transaction_state_stays_a_number() -> None:
    assert TransactionState(8) is TransactionState.COMMIT
    assert TransactionState.ROLLBACK == 12
    assert f"{TransactionState.COMMIT:d}" == "%d" % TransactionState.COMMIT == "8"  # noqa: UP031
    assert json.dumps(TransactionState.COMMIT) == "8"
