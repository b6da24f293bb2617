"""`python -m tests.system.soak`: see `--help`."""

from __future__ import annotations

import argparse
import logging
import secrets
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from tests.system.soak.run import Soak
from tests.system.soak.settings import Settings


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.system.soak",
        description="Puts every kind of load on a server for minutes while it is stopped and "
        "killed; nothing that it acknowledged may be lost, and it must not grow. Exit code 1: "
        "something was. Ctrl-C ends the load early and judges what there is.",
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="of load (default: 10)")
    parser.add_argument("--seed", type=int, help="repeats what was chosen (default: a new one)")
    parser.add_argument("--flush", choices=("ASYNC_FLUSH", "SYNC_FLUSH"), default="ASYNC_FLUSH")
    parser.add_argument("--rate", type=float, default=1.0, help="factor of all loads (default: 1)")
    parser.add_argument(
        "--folder", type=Path, help="where store and logs are made (default: a new one in TMPDIR)"
    )
    parser.add_argument("--keep", action="store_true", help="keep store and logs of a good run")
    found = parser.parse_args(argv)
    if not 0 < found.minutes <= 100_000:
        parser.error("--minutes must be positive")
    if not 0 < found.rate <= 100:
        parser.error("--rate must be positive, at most 100")
    if found.folder is not None and (found.folder / "store").exists():
        parser.error(f"{found.folder} has a store already: name another --folder")
    return found


def _say(line: str) -> None:
    print(line, flush=True)


def main(argv: list[str] | None = None) -> int:
    asked = _arguments(argv)
    folder = asked.folder or Path(tempfile.mkdtemp(prefix="pyrmq-soak-"))
    folder.mkdir(parents=True, exist_ok=True)
    seed = secrets.randbits(31) if asked.seed is None else asked.seed
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # What pyrmq's client says of brokers that are away.
    logging.basicConfig(filename=folder / "client.log", level="INFO")
    settings = Settings(
        folder, seconds=60 * asked.minutes, seed=seed, flush=asked.flush, rate=asked.rate
    )
    _say(
        f"soak: {asked.minutes:g} minutes, {asked.flush}, rate {asked.rate:g}, in {folder}; "
        f"repeat with --seed {seed}"
    )
    try:
        report = Soak(settings, _say).run()
    except KeyboardInterrupt:
        _say(f"ended at once, nothing is judged; the store is in {folder}")
        return 130
    for line in report.lines():
        _say(line)
    if report.exit_code() or asked.keep or asked.folder:
        _say(f"store and logs: {folder}")
    else:
        shutil.rmtree(folder)
    return report.exit_code()


if __name__ == "__main__":
    sys.exit(main())
