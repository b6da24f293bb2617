"""One load against the floor, the broker and, where asked for, Apache RocketMQ, in turns.

All run at once, and each has a window in every round: a machine that is slow for a while is slow
for all of them. Ratios are taken within a round; every figure is the median over rounds.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from .context import Context
from .floor import floor
from .harness import Broker, HarnessError
from .loads import BATCH, SYNC, Load
from .result import Result
from .yardstick import fdatasync_rate

FLOOR, OURS, APACHE = "floor", "pyrmq", "Apache"
OF_FLOOR, P99_OF_FLOOR, OF_APACHE = "of the floor", "p99 / floor p99", "of Apache"
TOPICS = {"send": "LoopbackSend", "batch": "LoopbackBatch", "pull": "LoopbackPull"}
PULLED = 100_000
"""Messages that are there to be pulled."""
QUEUE_SECONDS = 0.5
"""So far the queues may lag behind the log."""

Windows = dict[str, list[dict[str, Any]]]


def _options(load: Load) -> dict[str, object]:
    """The generator's, for any of the brokers."""
    options: dict[str, object] = {
        "connections": load.connections,
        "in_flight": load.in_flight,
        "topic": TOPICS[load.mode],
    }
    if load.mode == "batch":
        options["batch"] = BATCH
    if load.mode == "pull":
        options["max_msgs"] = BATCH
    return options


def _fill(context: Context, broker: Broker) -> None:
    context.load(
        "batch",
        broker,
        count=min(PULLED, context.max_messages),
        seconds=30,
        warmup=0,
        in_flight=4,
        topic=TOPICS["pull"],
    )
    time.sleep(QUEUE_SECONDS)


def _brokers(load: Load, context: Context, stack: ExitStack) -> dict[str, Broker]:
    """Everyone who has a turn, in this order, and ready for it."""
    brokers = {}
    brokers[FLOOR] = stack.enter_context(floor(load.flush, context.directory))
    brokers[OURS] = stack.enter_context(context.broker(load.flush))
    if context.apache is not None:
        brokers[APACHE] = context.apache.broker(load.flush)
    if load.mode == "pull":
        for broker in brokers.values():
            _fill(context, broker)
    if context.apache is not None:
        context.apache.prepare(load.mode, brokers[APACHE], _options(load))
    return brokers


def _window(load: Load, context: Context, broker: Broker) -> dict[str, Any]:
    # What the one before has left to be written is not written in the time of this one.
    os.sync()
    result = context.load(load.mode, broker, **_options(load))
    if not result["messages"]:
        raise HarnessError(f"{broker.addr}: not one message ({result['first_refusal']})")
    return result


def _ratios(windows: Windows, a: str, b: str, name: str) -> list[float]:
    """Of a figure, round by round."""
    return [x[name] / y[name] for x, y in zip(windows[a], windows[b], strict=True)]


def _report(load: Load, windows: Windows, found: Result) -> None:
    per = "requests" if load.mode == "pull" else "messages"
    found.add_loads(windows[OURS], per, load.cpu)
    if FLOOR in windows:
        found.add_ratios(OF_FLOOR, _ratios(windows, OURS, FLOOR, "rate"), load.of_floor)
        found.add_ratios(P99_OF_FLOOR, _ratios(windows, OURS, FLOOR, "p99_us"), load.p99)
        found.add_loads(windows[FLOOR], per, suffix=f", {FLOOR}")
    if APACHE in windows:
        found.add_ratios(OF_APACHE, _ratios(windows, OURS, APACHE, "rate"), load.of_apache)
        found.add_loads(windows[APACHE], per, suffix=f", {APACHE}")


def in_turns(load: Load) -> Callable[[Context], Result]:
    """The scenario of this load."""

    def run(context: Context) -> Result:
        rounds = f", {context.rounds} rounds" if context.rounds > 1 else ""
        found = Result(load.name, load.text + rounds)
        if context.running is not None and load.flush == SYNC:
            found.note = "as the running broker is configured"
        yards: list[float] = []
        with ExitStack() as stack:
            brokers = _brokers(load, context, stack)
            windows: Windows = {make: [] for make in brokers}
            for number in range(1, context.rounds + 1):
                for make, broker in brokers.items():
                    window = _window(load, context, broker)
                    windows[make].append({**window, "make": make, "round": number})
                if load.yardstick:
                    yards.append(fdatasync_rate(context.directory, min(2.0, context.seconds)))
        _report(load, windows, found)
        if yards:
            rates = [window["rate"] for window in windows[OURS]]
            times = [rate / yard for rate, yard in zip(rates, yards, strict=True)]
            found.add_ratios("of write + fdatasync a message", times, load.yardstick)
        return found

    return run
