"""Errors of segments name the parameters of `pyrmq.scan`, and other interfaces can rename them."""

from __future__ import annotations

import ast
import inspect
import pickle
import re
from pathlib import Path

import pytest

import pyrmq
from pyrmq.errors import (
    CheckpointError,
    DataLossError,
    Parameter,
    SegmentDamagedError,
    SegmentOptionError,
    StoreDamagedError,
)
from pyrmq.segments.plan import plan
from pyrmq.segments.scan import Scan
from pyrmq.segments.stream import StreamPlanner

ROOT = Path(pyrmq.__file__).parent


def named_in(path: Path) -> set[str]:
    """Names that are written out in calls of Parameter."""
    return {
        node.args[0].value
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "Parameter"
        and isinstance(node.args[0], ast.Constant)
    }


def named_by_the_engine() -> set[str]:
    """The same in the crate that plans."""
    source = ROOT.parent / "native" / "crates" / "scan" / "src"
    texts = [path.read_text(encoding="utf-8") for path in source.glob("*.rs")]
    return {name for text in texts for name in re.findall(r'Part::\w+\("(\w+)"', text)}


NAMED = named_in(ROOT / "errors.py") | named_by_the_engine()
NAMED = NAMED.union(*map(named_in, (ROOT / "segments").glob("*.py")))


def test_errors_name_parameters_that_there_are() -> None:
    there: set[str] = set()
    for callee in (pyrmq.scan, plan, StreamPlanner, StreamPlanner.latest, Scan.to_arrow):
        there |= inspect.signature(callee).parameters.keys()
    assert {"pattern", "fail_on_data_loss", "start_time", "broker_names"} <= NAMED
    assert there >= NAMED - {"timestamp_strategy", "starting_times", "max_records", "body"}


def test_a_parameter_with_a_value_is_written_as_in_python() -> None:
    assert str(Parameter("pattern")) == "pattern"
    assert str(Parameter("plan", "scan")) == "plan='scan'"
    assert str(Parameter("fail_on_data_loss", False)) == "fail_on_data_loss=False"


@pytest.mark.parametrize("kept", [lambda e: e, lambda e: pickle.loads(pickle.dumps(e))])
def test_renaming_changes_parameters_and_nothing_else(kept: type) -> None:
    error = kept(
        SegmentOptionError((Parameter("pattern"), ": 'pattern'"), ("see ", Parameter("plan", "x")))
    )
    assert str(error) == "pattern: 'pattern' (see plan='x')"
    for _ in range(2):
        error.rename(lambda p: p.name.upper())
        assert str(error) == "PATTERN: 'pattern' (see PLAN)"
        assert error.hint == "see PLAN"


def test_hints_of_classes() -> None:
    lost = DataLossError("bytes 1 to 2 are missing")
    assert "fail_on_data_loss=False continues with" in str(lost)
    assert str(DataLossError("x", "y")) == "x (y)"
    assert "stores and broker_names of before" in str(CheckpointError("x"))
    damaged = SegmentDamagedError("x")
    assert str(damaged) == str(StoreDamagedError("x"))
    assert isinstance(damaged, StoreDamagedError)


def test_text_that_is_not_utf_8_is_printable() -> None:
    error = SegmentOptionError((Parameter("pattern"), ": \udc80"), "\udc80")
    assert str(error) == "pattern: \\udc80 (\\udc80)"
