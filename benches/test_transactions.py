"""Transactions against a broker process, in short: `make bench-transactions` is the long form."""

from __future__ import annotations

import pytest

from benches.loopback.context import Context
from benches.loopback.scenarios import SCENARIOS


@pytest.mark.parametrize("name", ["transactions-8x16", "transactions-sync-8x16"])
@pytest.mark.benchmark(group="transactions")
def test_transactions(name: str, benchmark, report) -> None:
    context = Context(seconds=2, warmup=1)
    result = benchmark.pedantic(SCENARIOS[name], args=(context,), rounds=1)
    for figure in result.figures:
        if "generator" not in figure.name:
            report(f"{figure.name}: {figure.value:,.2f} {figure.unit}", figure.target)
    figures = {figure.name: figure.value for figure in result.figures}
    assert figures["committed, not delivered"] == 0
    assert figures["delivered again"] == 0
