"""Counts the engine's instructions for each message of some loads.

The loads are `native/crates/broker/examples/instructions.rs`, built as for a release. Callgrind
runs each of them and counts what its function `measured` executes, in the engine and in the C
library. A system call counts as one instruction. Callgrind knows no AVX-512, so copies and CRCs use
what older processors have. `python -m benches.instructions --help` lists the options.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# As much more as counts differ from run to run (addresses, the moment of a flush) is no news.
NOISE = 0.01
MEASURED = "instructions::measured*"
INDEXED = "*Indexer*index_some*"


@dataclass(frozen=True)
class Load:
    """`count` requests or messages, each of them one `per`; `counted` is the function."""

    name: str
    what: str
    count: int
    per: str = "message"
    counted: str = MEASURED


LOADS = (
    Load("send-java5", "SEND_MESSAGE_V2 as Java 5.x writes it, 64 in a feed", 6400),
    Load("send-java49", "SEND_MESSAGE as Java 4.9 writes it, 64 in a feed", 6400),
    Load("send-go", "SEND_MESSAGE as Go writes it, 64 in a feed", 6400),
    Load("send-single", "SEND_MESSAGE_V2 of Java 5.x, one in a feed", 3200),
    Load("send-signed", "SEND_MESSAGE_V2 of Java 5.x with a signature that is verified", 6400),
    Load("send-signed-single", "the same, one in a feed", 3200),
    Load("send-topics", "the same in 500 topics x 4 queues round robin, 64 in a feed", 6400),
    Load("batch", "SEND_BATCH_MESSAGE, 32 messages each", 12800),
    Load("pull", "a granted pull that finds 32 messages", 2000, per="pull"),
    Load("append", "PutGuard::append, 100 in a guard", 10000),
    Load("index", "the indexing thread, two keys a message", 6400, counted=INDEXED),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a table. Exit code 1: a count is more than NOISE above the baseline's; 2: misuse."""
    options = _parser().parse_args(arguments)
    if shutil.which("valgrind") is None:
        print("instructions: valgrind is not installed (apt-get install valgrind)", file=sys.stderr)
        return 2
    try:
        baseline = read(options.compare) if options.compare else {}
    except (OSError, ValueError) as error:
        print(
            f"instructions: {options.compare} is no file that --save wrote: {error}",
            file=sys.stderr,
        )
        return 2
    binary = _build()
    counts: dict[str, float] = {}
    print(f"{'load':18} {'instructions':>12} {'before':>9} {'ratio':>6}  for each")
    for load in LOADS:
        if options.load and load.name not in options.load:
            continue
        counts[load.name] = count(binary, load, options.keep)
        print(row(load, counts[load.name], baseline.get(load.name)), flush=True)
    if options.save:
        options.save.parent.mkdir(parents=True, exist_ok=True)
        options.save.write_text(json.dumps(counts, indent=2) + "\n")
    return 1 if any(n > baseline.get(name, n) * (1 + NOISE) for name, n in counts.items()) else 0


def read(path: Path) -> dict[str, float]:
    """What `--save` wrote: instructions by load. OSError, ValueError."""
    found = json.loads(path.read_text())
    if not isinstance(found, dict) or not all(isinstance(n, int | float) for n in found.values()):
        raise ValueError("not an object of numbers")
    return found


def row(load: Load, counted: float, before: float | None) -> str:
    compared = f"{before:9,.0f} {counted / before:6.3f}" if before else " " * 16
    return f"{load.name:18} {counted:12,.0f} {compared}  {load.per}: {load.what}"


def count(binary: Path, load: Load, keep: Path | None) -> float:
    """Instructions for each `load.per`. `keep`: folder for callgrind_annotate's file."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "callgrind.out"
        command = [
            "valgrind",
            "--tool=callgrind",
            f"--toggle-collect={load.counted}",
            f"--callgrind-out-file={out}",
            *(["--dump-instr=yes"] if keep else []),
            str(binary),
            load.name,
            str(load.count),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"instructions: {load.name} failed:\n{done.stderr}")
        if keep:
            keep.mkdir(parents=True, exist_ok=True)
            shutil.copy(out, keep / f"callgrind.out.{load.name}")
        return total(out.read_text()) / load.count


def total(text: str) -> int:
    """The instructions that a file of callgrind's has counted in all."""
    found = re.search(r"^(?:totals|summary): (\d+)", text, re.MULTILINE)
    if found is None or int(found[1]) == 0:
        raise SystemExit("instructions: callgrind has counted nothing: was a function renamed?")
    return int(found[1])


def _build() -> Path:
    command = ["cargo", "build", "--release", "--locked", "--quiet"]
    command += ["-p", "pyrmq-broker", "--example", "instructions"]
    subprocess.run(command, cwd=ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")
    return target / "release" / "examples" / "instructions"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benches.instructions", description=__doc__)
    names = [load.name for load in LOADS]
    add = parser.add_argument
    add("--load", action="append", choices=names, help="only this one (again for more)")
    add("--save", type=Path, metavar="FILE", help="writes the counts, for --compare")
    add("--compare", type=Path, metavar="FILE", help="shows ratios to these counts")
    add("--keep", type=Path, metavar="DIR", help="keeps the files for callgrind_annotate")
    return parser


if __name__ == "__main__":
    sys.exit(main())
