"""Keeps what `make bench` measured by commit, and compares two commits.

    python -m benches.saved save build/bench.json
    python -m benches.saved compare REV [REV]

Files are .benchmarks/COMMIT.json; COMMIT-dirty.json has what was measured with changes that are not
committed. A ratio is the new median's; the spread is the larger interquartile range of both.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent / ".benchmarks"


class NotSavedError(RuntimeError):
    """There is no file of a commit; the text says what to do."""


def _git(*words: str) -> str:
    done = subprocess.run(
        ["git", *words], cwd=FOLDER.parent, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise NotSavedError(done.stderr.strip() or f"git {' '.join(words)} failed")
    return done.stdout.strip()


def name_now() -> str:
    """Of the file for what the checkout has."""
    dirty = "-dirty" * bool(_git("status", "--porcelain", "--untracked-files=no"))
    return f"{_git('rev-parse', '--verify', 'HEAD')}{dirty}"


def save(source: Path) -> Path:
    if not source.is_file():
        raise NotSavedError(f"{source} is missing: run `make bench` first")
    FOLDER.mkdir(exist_ok=True)
    target = FOLDER / f"{name_now()}.json"
    shutil.copyfile(source, target)
    return target


def file_of(revision: str) -> Path:
    """The saved file of a revision, or of what the checkout has (`now`). NotSavedError."""
    name = (
        name_now() if revision == "now" else _git("rev-parse", "--verify", f"{revision}^{{commit}}")
    )
    path = FOLDER / f"{name}.json"
    if not path.is_file():
        known = ", ".join(p.stem[:12] + "-dirty" * p.stem.endswith("-dirty") for p in _saved())
        advice = f"git switch --detach {revision} && make bench-save" if revision != "now" else ""
        raise NotSavedError(
            f"nothing is saved for {revision} ({name[:12]}): run `{advice or 'make bench-save'}`. "
            f"Saved: {known or 'nothing'}"
        )
    return path


def _saved() -> list[Path]:
    return sorted(FOLDER.glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True)


@dataclass(frozen=True)
class Line:
    """One benchmark of both files: medians in seconds, spreads as parts of them."""

    name: str
    old: float
    new: float
    spread: float

    @property
    def ratio(self) -> float:
        return self.new / self.old

    @property
    def verdict(self) -> str:
        away = max(self.ratio, 1 / self.ratio) - 1
        if self.spread >= away:
            return f"within the spread of {self.spread:.0%}"
        return f"{'slower' if self.ratio > 1 else 'faster'}, spread {self.spread:.0%}"


def compare(old: dict[str, Any], new: dict[str, Any]) -> tuple[list[Line], list[str]]:
    """The benchmarks of both reports of pytest-benchmark, and the names that only one has."""
    before, after = _stats(old), _stats(new)
    lines = []
    for name in before:
        if name in after:
            a, b = before[name], after[name]
            spread = max(s["iqr"] / s["median"] for s in (a, b))
            lines.append(Line(name, a["median"], b["median"], spread))
    return lines, sorted(set(before) ^ set(after))


def _stats(report: dict[str, Any]) -> dict[str, dict[str, float]]:
    found = {b["fullname"]: b["stats"] for b in report["benchmarks"]}
    return {name: stats for name, stats in found.items() if stats["median"] > 0}


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def text(lines: list[Line], alone: list[str]) -> str:
    wide = max((len(line.name) for line in lines), default=0)
    out = [
        f"{line.name:<{wide}}  {_time(line.old):>8}  {_time(line.new):>8}  {line.ratio:6.2f}  "
        f"{line.verdict}"
        for line in lines
    ]
    if alone:
        out.append(f"only in one of both: {', '.join(alone)}")
    return "\n".join(out or ["no benchmark is in both files"])


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.saved")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("save").add_argument("source", type=Path)
    both = commands.add_parser("compare")
    both.add_argument("old", metavar="REV")
    both.add_argument("new", metavar="REV", nargs="?", default="now")
    options = parser.parse_args(argv)
    try:
        if options.command == "save":
            print(f"saved as {save(options.source)}")
            return 0
        files = [file_of(revision) for revision in (options.old, options.new)]
    except NotSavedError as error:
        print(f"benches: {error}", file=sys.stderr)
        return 1
    print(text(*compare(*(json.loads(path.read_text()) for path in files))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
