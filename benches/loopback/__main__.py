"""`python -m benches.loopback`: see `--help`."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from .harness import Broker, HarnessError, build_loadgen
from .report import table, write_json
from .scenarios import SCENARIOS, Context, Result, Unavailable


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benches.loopback",
        description="Broker CPU per message, throughput, memory and start-up time over loopback.",
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
        "--max-messages", type=int, default=1_000_000, help="end a window after so many sends"
    )
    parser.add_argument(
        "--dir", type=Path, help="where stores are made, and so the disk measured (default: TMPDIR)"
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
    return options


def _running(options: argparse.Namespace) -> Broker | None:
    if options.addr is None:
        return None
    host, _, port = options.addr.rpartition(":")
    return Broker(host, int(port), options.pid, started=0.0)


def main(argv: list[str] | None = None) -> int:
    """0: all scenarios were measured; 1: some were not."""
    options = _arguments(argv)
    try:
        binary = build_loadgen()
    except (HarnessError, subprocess.CalledProcessError) as error:
        print(f"loopback: {error}", file=sys.stderr)
        return 1
    context = Context(
        binary=binary,
        seconds=options.seconds,
        warmup=options.warmup,
        max_messages=options.max_messages,
        directory=options.dir,
        running=_running(options),
    )
    results: list[Result] = []
    failed = False
    for name in options.scenario or SCENARIOS:
        print(f"loopback: {name}", file=sys.stderr, flush=True)
        try:
            results.append(SCENARIOS[name](context))
        except Unavailable as why:
            results.append(Result(name, "not measured", note=str(why)))
        except (HarnessError, OSError, RuntimeError) as error:
            failed = True
            results.append(Result(name, "FAILED", note=str(error)))
    if options.addr is not None:
        print(f"the broker at {options.addr}; it flushes as it is configured, whatever a load says")
    print(table(results))
    if options.json is not None:
        write_json(options.json, results)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
