"""The programs of docs/otel.md, each in a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.fixtures import process as process
from tests.support.server import ServerProcess

TEXT = (Path(__file__).parents[3] / "docs" / "otel.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
PRINTED = ('"name": "send TopicTest"', "", "", "True\n")


@pytest.mark.parametrize(
    ("block", "printed"),
    list(zip(BLOCKS, PRINTED, strict=True)),
    ids=["first trace", "loop", "logs", "metrics"],
)
def test_programs(process: ServerProcess, block: str, printed: str) -> None:
    program = block.replace("127.0.0.1:9876", "{}:{}".format(*process.namesrv))
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert printed in done.stdout
