"""Long polling with 10,000 pulls that wait: the answer to one of them, and messages that none of
them waits for, beside a broker on which nothing else waits."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from statistics import median, quantiles

import pytest

from benches.held import Held, held
from benches.loopback.proc import allow_open_files

HELD = 10_000
ROUNDS = 1000
ARRIVALS = 6_400
TARGET_US = 1000
IDLE_SECONDS = 6.0
"""Longer than the longest sleep of the task that watches their time."""


@pytest.mark.parametrize("connections", [4, HELD])
@pytest.mark.benchmark(group=f"held pulls, {HELD:,} others held")
def test_answer(connections: int, paired, report) -> None:
    """From before the message is sent until the pull's answer is read."""
    assert allow_open_files(2 * HELD + 1000) >= HELD + 1000
    with ExitStack() as stack:
        alone = stack.enter_context(held(0))
        among = stack.enter_context(held(HELD, connections))

        def hold() -> None:
            alone.hold()
            among.hold()

        def cpu() -> tuple[float, float]:
            return alone.cpu_seconds(), among.cpu_seconds()

        before = cpu()
        result = paired(among.wake, alone.wake, rounds=ROUNDS, before=hold)
        spent = [(now - then) / (ROUNDS + 3) * 1e6 for then, now in zip(before, cpu(), strict=True)]
        assert among.still_there()
        idle = cpu()
        time.sleep(IDLE_SECONDS)
        still = [(now - then) / IDLE_SECONDS * 1e6 for then, now in zip(idle, cpu(), strict=True)]
        us, p99 = median(result.work) * 1e6, quantiles(result.work, n=100)[98] * 1e6
        report(
            f"{us:.0f} us (p99 {p99:.0f}), over {connections:,} connections", f"< {TARGET_US} us"
        )
        report(f"{1 / result.speed:.2f} of the time where nothing else is held", "about 1")
        report(f"{spent[1]:.0f} us of broker CPU a pull and its answer; {spent[0]:.0f} us alone")
        report(
            f"{still[1]:.0f} us of broker CPU a second while nothing comes; {still[0]:.0f} us alone"
        )
        report(f"{among.mib:.1f} MiB for {HELD:,} pulls, {connections:,} connections")


@pytest.mark.parametrize("connections", [4, HELD])
@pytest.mark.benchmark(group=f"messages for other queues, {HELD:,} pulls held")
def test_arrivals(connections: int, paired, report) -> None:
    """Broker CPU of messages for a queue on which nothing waits."""
    assert allow_open_files(2 * HELD + 1000) >= HELD + 1000
    with ExitStack() as stack:
        alone = stack.enter_context(held(0))
        among = stack.enter_context(held(HELD, connections))
        spent: dict[Held, list[float]] = {alone: [], among: []}

        def arrive(at: Held) -> Callable[[], None]:
            def run() -> None:
                before = at.cpu_seconds()
                at.arrive(ARRIVALS)
                spent[at].append((at.cpu_seconds() - before) / ARRIVALS * 1e6)

            return run

        paired(arrive(among), arrive(alone), rounds=30)
        assert among.still_there()
        ratio = median(spent[among]) / median(spent[alone])
        report(
            f"{median(spent[among]):.2f} us of broker CPU a message, {ratio:.2f} of what it takes "
            f"alone, over {connections:,} connections",
            "about 1",
        )
