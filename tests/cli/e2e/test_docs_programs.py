"""The first programs of README.md do what is said of them. (Other blocks: tests/docs.)"""

from __future__ import annotations

import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import trio

import pyrmq
from pyrmq.client.consumer.offsets import BrokerOffsets
from pyrmq.client.instance import ClientInstance
from pyrmq.server import Running
from tests.support.command import environment

ROOT = Path(__file__).resolve().parents[3]
README = ROOT / "README.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
ADDRESS = "127.0.0.1:9876"


def blocks(path: Path, language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall(path.read_text()) if kind == language]


def first_program(module: str) -> str:
    """As it stands in the README; for trio changed as the README says."""
    trio_too = module == "pyrmq"
    start = f"from {'pyrmq.aio' if trio_too else module} import "
    (program,) = (text for text in blocks(README, "python") if start in text)
    if trio_too:
        program = program.replace("pyrmq.aio", "pyrmq").replace("import asyncio", "import trio")
        program = program.replace("asyncio.run(main())", "trio.run(main)")
        program = program.replace("await consumer.acknowledge", "consumer.acknowledge")
    return program


@pytest.mark.parametrize("module", ["pyrmq.aio", "pyrmq.sync", "pyrmq"])
async def test_the_first_program(embedded: Running, module: str) -> None:
    """It prints what it should, and its message counts as consumed afterwards."""
    program = first_program(module)
    assert program.count(ADDRESS) == 2
    done = await trio.to_thread.run_sync(
        partial(
            subprocess.run,
            [sys.executable, "-c", program.replace(ADDRESS, embedded.namesrv)],
            capture_output=True,
            text=True,
            timeout=40,
            env=environment(),
        )
    )
    assert (done.returncode, done.stderr) == (0, "")
    first, second = done.stdout.splitlines()
    queue = int(first.split()[1])
    assert first == f"SEND_OK {queue} 0"
    assert second == "TagA ['order-1'] b'Hello'"
    async with ClientInstance(embedded.namesrv) as client:
        offsets = BrokerOffsets(client, "my-consumers")
        assert await offsets.read(pyrmq.MessageQueue("TopicTest", "broker-a", queue)) == 1
