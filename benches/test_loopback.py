"""A broker process over loopback, in short: `make bench-loopback` is the long form."""

from __future__ import annotations

import pytest

from benches.loopback.context import Context
from benches.loopback.scenarios import SCENARIOS

SHORT = ("send-1x64", "send-64x1", "pull-32-1x1", "pull-32-4x1")


@pytest.mark.parametrize("name", SHORT)
@pytest.mark.benchmark(group="loopback")
def test_loopback(name: str, benchmark, report) -> None:
    context = Context(seconds=2, warmup=1)
    result = benchmark.pedantic(SCENARIOS[name], args=(context,), rounds=1)
    for figure in result.figures:
        if figure.target:
            report(f"{figure.name}: {figure.value:.2f} {figure.unit}", figure.target)
