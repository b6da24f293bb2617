"""Numbers of answers from servers that may lie."""

from __future__ import annotations

import json

import pytest

from pyrmq.admin import values
from pyrmq.admin.usage import NOTHING, BrokerUsage, Figures

LONGEST = (1 << 63) - 1


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (LONGEST, LONGEST), (-LONGEST - 1, -LONGEST - 1), ("12", 12), (LONGEST + 1, 0),
        (-LONGEST - 2, 0), (10**400, 0), ("9" * 400, 0), (1.5, 0), (None, 0), (True, 0), ([], 0),
    ],
)  # fmt: skip
def test_numbers(value: object, number: int) -> None:
    assert values.number({"n": value}, "n") == number


@pytest.mark.parametrize("seconds", [10**400, 1e-320, 5e-324, -1, 0, 60, LONGEST])
def test_rates_of_a_broker_that_lies(seconds: float) -> None:
    for amount in (10**400, LONGEST, -5, 7):
        row = dict.fromkeys(
            ("messagesIn", "bytesIn", "messagesOut", "bytesOut", "requests"), amount
        )
        told = {"seconds": seconds, "rows": [row], "total": row, "others": row}
        found = BrokerUsage.from_json("client", told)
        rate = found.total.in_a_second(found.seconds)
        shown = json.dumps([rate.messages_in, rate.bytes_out, rate.requests], allow_nan=False)
        assert len(shown) < 100
    assert Figures(1).in_a_second(1e-300) == NOTHING
    assert Figures(messages_in=30).in_a_second(10).messages_in == 3
