"""`python -m benches.loopback`: see `--help`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from ..release_build import require_release_build
from .context import Context
from .harness import Broker, HarnessError
from .loads import LOADS
from .prepared import Prepared
from .report import comparison, table, write_json
from .result import Result, Unavailable
from .scenarios import SCENARIOS
from .touch import touch

FAILED = "FAILED"
IN_TURNS = {load.name for load in LOADS}


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benches.loopback",
        description="Throughput and latency of a broker over loopback, beside those of the least "
        "that a broker can do; CPU time, memory, bytes written, start-up time.",
    )
    parser.add_argument(
        "--scenario",
        action="append",
        choices=sorted(SCENARIOS),
        help="run only this one; may be given several times (default: all)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything measured here")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a measured window")
    parser.add_argument("--warmup", type=float, default=1.0, help="seconds of load before it")
    parser.add_argument(
        "--rounds", type=int, default=3, help="windows that each broker has in turns (default: 3)"
    )
    parser.add_argument(
        "--max-messages", type=int, default=1_000_000, help="end a window after so many sends"
    )
    parser.add_argument(
        "--dir", type=Path, help="where stores are made, and so the disk measured (default: TMPDIR)"
    )
    parser.add_argument(
        "--peer",
        action="store_true",
        help="measure Apache RocketMQ in turns as well (needs Java and Maven)",
    )
    parser.add_argument(
        "--prepare",
        type=float,
        default=20.0,
        metavar="SECONDS",
        help="load that Apache RocketMQ has of each kind before it is measured (default: 20)",
    )
    parser.add_argument(
        "--no-touch",
        action="store_true",
        help="do not touch and free the machine's free memory first (see touch.py)",
    )
    parser.add_argument(
        "--addr",
        metavar="HOST:PORT",
        help="measure this running broker, of any make, instead of starting servers",
    )
    parser.add_argument("--pid", type=int, help="its process id, for CPU time and memory")
    options = parser.parse_args(argv)
    if options.pid is not None and options.addr is None:
        parser.error("--pid needs --addr")
    if options.addr is not None and not options.addr.rpartition(":")[2].isdigit():
        parser.error("--addr must be HOST:PORT")
    if options.rounds < 1:
        parser.error("--rounds must be 1 or more")
    return options


def _running(options: argparse.Namespace) -> Broker | None:
    if options.addr is None:
        return None
    host, _, port = options.addr.rpartition(":")
    return Broker(host, int(port), options.pid, started=0.0)


def _measure(names: list[str], context: Context) -> Iterator[Result]:
    for name in names:
        if context.apache is not None and name not in IN_TURNS:
            context.apache.stop()  # nobody else is there when one broker is measured alone
        print(f"loopback: {name}", file=sys.stderr, flush=True)
        try:
            yield SCENARIOS[name](context)
        except Unavailable as why:
            yield Result(name, "not measured", note=str(why))
        except (HarnessError, OSError, RuntimeError) as error:
            yield Result(name, FAILED, note=str(error))


def main(argv: list[str] | None = None) -> int:
    """0: all scenarios were measured; 1: some were not."""
    options = _arguments(argv)
    if not options.no_touch:
        print("loopback: touching free memory", file=sys.stderr, flush=True)
        touch()
    with ExitStack() as stack:
        apache = None
        if options.peer:
            apache = Prepared(options.dir, options.prepare)
            stack.callback(apache.stop)
        context = Context(
            seconds=options.seconds,
            warmup=options.warmup,
            max_messages=options.max_messages,
            rounds=options.rounds,
            directory=options.dir,
            running=_running(options),
            apache=apache,
        )
        results = list(_measure(options.scenario or list(SCENARIOS), context))
    if options.addr is not None:
        print(f"the broker at {options.addr}; it flushes as it is configured, whatever a load says")
    print(table(results))
    if lines := comparison(results):
        print(f"\n{lines}")
    if options.json is not None:
        write_json(options.json, results)
    return int(any(result.load == FAILED for result in results))


if __name__ == "__main__":
    require_release_build()
    sys.exit(main())
