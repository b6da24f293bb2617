"""Files of results: one run, several runs of one load, or a folder of such files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from pyrmq.bench.result import (
    SCHEMA,
    Result,
    ResultFormatError,
    check_schema,
    parse_result,
    read_json,
    write_file,
)
from pyrmq.escape import escape

RUNS_SCHEMA = "pyrmq-bench-runs/1"
"""`{"schema": …, "runs": […]}`: runs of one load, each a result."""


def write_json(path: Path, value: object) -> None:
    """OSError."""
    write_file(path, json.dumps(value, indent=1, allow_nan=False) + "\n")


def write_runs(path: Path, runs: Sequence[Result]) -> None:
    write_json(path, {"schema": RUNS_SCHEMA, "runs": [run.to_json() for run in runs]})


def read_runs(path: Path) -> list[Result]:
    """The runs in a file, or in all *.json of a folder, one or more. ResultFormatError if something
    there is no result."""
    if path.is_dir():
        files = [file for file in sorted(path.glob("*.json")) if not file.is_dir()]
        found = [run for file in files for run in read_runs(file)]
        if not found:
            raise ResultFormatError(f"{escape(str(path))}: no *.json file in this folder")
        return found
    where = escape(str(path))
    value = read_json(path)
    if not isinstance(value, dict) or value.get("schema") != RUNS_SCHEMA:
        return [parse_result(value, str(path))]
    check_schema(value, RUNS_SCHEMA, where)
    runs = value.get("runs")
    if not isinstance(runs, list) or not runs:
        raise ResultFormatError(f"{where}.runs: a list of one or more runs ({SCHEMA}) expected")
    return [parse_result(run, f"{path}.runs[{i}]") for i, run in enumerate(runs)]
