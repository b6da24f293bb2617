"""`python -m benches.loopback.compare`: transactions here and with Apache RocketMQ, side by side.

Both brokers run at once; the same generator loads one after the other, round after round, each time
with plain sends and with transactions. What counts are the ratios within a round: this machine may
be busy with other things, so each window also tells how much CPU was neither the broker's nor the
generator's. (Where Linux schedules by terminal session, sched_autogroup, `nice` counts within one
only; writing -15 to /proc/self/autogroup in the shell that starts this counts among all.)

A transaction counts when END_TRANSACTION is answered, or sent where it is one-way. Each window then
reads all of it back, and says what was not delivered or delivered again.

Clients send END_TRANSACTION one-way, so nothing holds them back from sending more than a broker
can do. With SYNC_FLUSH Apache RocketMQ then drops what has waited for 3 s and is busy with checking
back ever after, which says little about either broker: there the generator waits for the answers.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..release_build import require_release_build
from .generator import generate
from .harness import Broker, HarnessError, server
from .peer import VERSION, apache
from .proc import cpu_seconds, machine_seconds

APACHE, OURS = f"Apache {VERSION}", "pyrmq"
TARGET = 4.0
Start = Callable[..., AbstractContextManager[Broker]]
MAKES: dict[str, Start] = {APACHE: apache, OURS: server}
FLUSH = {"ASYNC_FLUSH": "one-way", "SYNC_FLUSH": "two-way"}
"""Flush modes, and how transactions are ended there unless it is said."""


@dataclass(frozen=True)
class Window:
    """One measured window: who, what, in which round, and what the generator said."""

    make: str
    mode: str
    """send, or how transactions were ended: one-way or two-way."""
    flush: str
    load: str
    round: int
    others: float
    """The share of the machine that neither broker nor generator took, from start to end."""
    result: dict[str, Any]

    @property
    def done(self) -> int:
        """Messages acknowledged, or transactions that ended."""
        return int(self.result["messages"])

    @property
    def rate(self) -> float:
        return self.done / float(self.result["seconds"])

    @property
    def cpu_us(self) -> float:
        """Broker CPU for each."""
        return float(self.result["watched_cpu_seconds"]) / max(1, self.done) * 1e6

    def as_json(self) -> dict[str, Any]:
        own = {"rate": self.rate, "cpu_us": self.cpu_us}
        return {**vars(self), **own}

    def line(self) -> str:
        r = self.result
        text = (
            f"  {self.round}  {self.make:<13} {self.mode:<8} {self.rate:>9,.0f}/s"
            f"  {self.cpu_us:>6.1f} us"
            f"  p50 {r['p50_us'] / 1e3:>6.2f}  p99 {r['p99_us'] / 1e3:>6.2f} ms"
        )
        if self.mode != "send":
            text += f"  missing {r['missing']}  repeated {r['repeated']}"
        if "end_p50_us" in r:
            text += f"  end p50 {r['end_p50_us'] / 1e3:.2f}  p99 {r['end_p99_us'] / 1e3:.2f} ms"
        if r["refused"]:
            text += f"  refused {r['refused']}: {r['first_refusal']}"
        return f"{text}  others {self.others:.0%}"


def _measure(broker: Broker, mode: str, options: dict[str, object]) -> tuple[float, dict[str, Any]]:
    """(share of the machine that others took, the generator's result)."""
    assert broker.pid is not None

    def used() -> tuple[float, float]:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        known = cpu_seconds(broker.pid or 0) + children.ru_utime + children.ru_stime
        return machine_seconds(), known

    began, (busy, known) = time.monotonic(), used()
    result = generate(mode, broker, options)
    busy, known = (b - a for a, b in zip((busy, known), used(), strict=True))
    took = (time.monotonic() - began) * (os.cpu_count() or 1)
    return max(0.0, busy - known) / took, result


def _shape(load: tuple[int, int]) -> dict[str, object]:
    return {"connections": load[0], "in_flight": load[1]}


def _load(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)x(\d+)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text}: want CONNECTIONSxIN_FLIGHT, as 8x16")
    return int(match[1]), int(match[2])


def _modes(flush: str, options: argparse.Namespace) -> dict[str, tuple[str, dict[str, object]]]:
    """The loads of a round: name -> (the generator's mode, what is special about it)."""
    modes: dict[str, tuple[str, dict[str, object]]] = {"send": ("send", {"topic": "CompareSend"})}
    for name in options.ends or [FLUSH[flush]]:
        special: dict[str, object] = {"topic": "CompareTransaction", "verify": True}
        if name == "one-way":
            special["oneway_end"] = True
        modes[name] = ("transaction", special)
    return modes


def rounds(flush: str, options: argparse.Namespace) -> list[Window]:
    """All rounds in one flush mode, on new stores."""
    base = {"body": options.body, "seconds": options.seconds, "warmup": options.warmup}
    modes = _modes(flush, options)
    found: list[Window] = []
    with ExitStack() as stack:
        running = {
            make: stack.enter_context(MAKES[make](flush=flush, directory=options.dir))
            for make in options.make
        }
        for make, broker in running.items():
            # A JVM is fast when it has compiled what it runs.
            print(f"  {make}: {options.prepare:g} s of load first", file=sys.stderr, flush=True)
            for mode, special in modes.values():
                seconds = options.prepare / len(modes)
                words = {**base, **special, **_shape(options.load[0]), "seconds": seconds}
                generate(mode, broker, words)
        for load in options.load:
            shape = _shape(load)
            print(f"{flush}, {load[0]} x {load[1]}, {options.body} bytes", flush=True)
            for number, (make, broker), (name, (mode, special)) in itertools.product(
                range(1, options.rounds + 1), running.items(), modes.items()
            ):
                # A group of its own: what a window left behind is nobody's in the next.
                group = f"compare-{number}"
                others, result = _measure(
                    broker, mode, {**base, **special, **shape, "group": group}
                )
                text = f"{load[0]} x {load[1]}"
                window = Window(make, name, flush, text, number, others, result)
                found.append(window)
                print(window.line(), flush=True)
    return found


def _span(values: Sequence[float], form: str) -> str:
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def _make_lines(make: str, rows: Sequence[Window]) -> list[str]:
    lines = []
    for mode in dict.fromkeys(w.mode for w in rows):
        own = [w for w in rows if w.mode == mode]
        rate, cpu = _span([w.rate for w in own], ",.0f"), _span([w.cpu_us for w in own], ".1f")
        line = f"  {make:<13} {mode:<8} {rate}/s, {cpu} us"
        if mode != "send":
            part = _ratios(own, [w for w in rows if w.mode == "send"])
            line += f", {_span(part, '.2f')} of plain sends"
            counts = {"missing": "not delivered", "repeated": "delivered again"}
            for field, text in counts.items():
                if count := sum(w.result[field] for w in own):
                    line += f", {text}: {count}"
        lines.append(line)
    return lines


def _ratios(a: Sequence[Window], b: Sequence[Window]) -> list[float]:
    """Of the rates, round by round."""
    return [x.rate / y.rate for x, y in zip(a, b, strict=True)]


def summary(windows: Sequence[Window]) -> list[str]:
    """Median (lowest to highest) of every load, and the ratios within rounds."""
    lines = []
    for flush, load in dict.fromkeys((w.flush, w.load) for w in windows):
        rows = [w for w in windows if (w.flush, w.load) == (flush, load)]
        lines.append(f"{flush}, {load}")
        makes = list(dict.fromkeys(w.make for w in rows))
        for make in makes:
            lines += _make_lines(make, [w for w in rows if w.make == make])
        if len(makes) == len(MAKES):
            for mode in dict.fromkeys(w.mode for w in rows):
                ours, theirs = (
                    [w for w in rows if (w.make, w.mode) == (make, mode)] for make in (OURS, APACHE)
                )
                target = "" if mode == "send" else f", target {TARGET:g}"
                cpu = [y.cpu_us / x.cpu_us for x, y in zip(ours, theirs, strict=True)]
                lines.append(
                    f"  {OURS} : {APACHE}, {mode}: {_span(_ratios(ours, theirs), '.2f')} times"
                    f"{target}; CPU for each 1 : {_span(cpu, '.1f')}"
                )
    return lines


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benches.loopback.compare", description=__doc__.partition("\n\n")[2]
    )
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=4.0, help="length of a measured window")
    parser.add_argument("--warmup", type=float, default=1.0, help="seconds of load before it")
    parser.add_argument("--prepare", type=float, default=20.0, help="seconds of load at first")
    parser.add_argument("--flush", action="append", choices=FLUSH, help="only this flush mode")
    parser.add_argument(
        "--load", action="append", type=_load, metavar="CxW", help="default: 8x16 and 1x64"
    )
    parser.add_argument("--make", action="append", choices=MAKES, help="only this broker")
    parser.add_argument("--body", type=int, default=1024, help="bytes of a message")
    parser.add_argument(
        "--ends",
        action="append",
        choices=("one-way", "two-way"),
        help="END_TRANSACTION so (default: one-way with ASYNC_FLUSH, two-way with SYNC_FLUSH)",
    )
    parser.add_argument("--dir", type=Path, help="where stores are made (default: TMPDIR)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all windows here")
    options = parser.parse_args(argv)
    options.flush = options.flush or list(FLUSH)
    options.load = options.load or [(8, 16), (1, 64)]
    options.make = [make for make in MAKES if make in (options.make or MAKES)]
    return options


def main(argv: list[str] | None = None) -> int:
    """0: all was measured; 1: it was not."""
    options = _arguments(argv)
    windows: list[Window] = []
    try:
        for flush in options.flush:
            windows += rounds(flush, options)
    except HarnessError as error:
        print(f"compare: {error}", file=sys.stderr)
        return 1
    print("\n".join(["", *summary(windows)]))
    if options.json is not None:
        text = json.dumps([window.as_json() for window in windows], indent=1)
        options.json.write_text(text + "\n")
    return 0


if __name__ == "__main__":
    require_release_build()
    sys.exit(main())
