"""The examples of docs/scan.md run, and its table names what there is."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import pyrmq
from tests.segments.making import put, small

TEXT = (Path(__file__).parents[3] / "docs" / "scan.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_examples(tmp_path: Path, number: int, capsys: pytest.CaptureFixture[str]) -> None:
    with small(tmp_path / "store") as store:
        for tag in ("paid", "shipped", "new"):
            put(store, "orders", 0, b"x" * 100, tag)
    names = {"store": tmp_path / "store", "pyrmq": pyrmq}
    exec(EXAMPLES[number], names)
    if "table" in names:
        assert names["table"].num_rows == 2  # type: ignore[attr-defined]
        assert capsys.readouterr().out == "2\n"


def test_every_argument_is_described() -> None:
    told = set(re.findall(r"`(\w+)[`=]", TEXT))
    own = set(inspect.signature(pyrmq.scan).parameters) - {"path"}
    obvious = {"decompress", "batch_rows", "batch_bytes"}
    assert own - obvious <= told
