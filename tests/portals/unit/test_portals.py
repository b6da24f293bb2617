"""The clients for asyncio and for threads have all that the clients for trio have: the check."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent.parent
SCRIPTS = ROOT / "scripts"


def check(before: str = "", root: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """The check, after a change of the program, of the files below `root`."""
    program = f"""
import pathlib, sys
sys.path.insert(0, {str(SCRIPTS)!r})
import portals
{before}
sys.exit(portals.main(["--check"], pathlib.Path({str(root)!r})))
"""
    command = [sys.executable, "-c", program]
    return subprocess.run(command, cwd=ROOT, text=True, capture_output=True)


def test_all_is_as_it_would_be_written() -> None:
    done = check()
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


NEW_METHODS = """
async def more(self): ...
from pyrmq.admin.topics import Topics
from pyrmq.client.producer.producer import Producer
from pyrmq.oms import PullConsumer
for kind in (Topics, Producer, PullConsumer):
    kind.more = more
"""


def test_a_new_method_is_missed() -> None:
    done = check(NEW_METHODS)
    assert done.returncode == 1
    for name, call in (("aio", "awaited"), ("sync", "blocking")):
        for package in (f"pyrmq/{name}", f"pyrmq/oms/{name}"):
            assert f"{package}/_generated_clients.py is stale" in done.stdout
        for kind in ("Producer", "TransactionalProducer", "PullConsumer", "Topics"):
            assert f"+    more = {call}(Trio{kind}.more)" in done.stdout
    assert "_generated_outbox" not in done.stdout


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ("del pyrmq.admin.topics.Topics.list", "-    list = awaited(TrioTopics.list)"),
        ("pyrmq.client.PendingSend.__aenter__ = 1", "pyrmq.client.PendingSend is in no file"),
        ("del pyrmq.client.consumer.lite_pull.LitePullConsumer.saw", "LitePullConsumer has no saw"),
        (
            "pyrmq.client.producer.producer.Producer.start = lambda self: None",
            "Producer.start: each client here has a start",
        ),
    ],
)
def test_what_else_is_refused(change: str, fault: str) -> None:
    done = check(f"import pyrmq.admin.topics\n{change}")
    assert done.returncode == 1
    assert fault in done.stdout + done.stderr


def test_a_file_that_was_edited_is_stale(tmp_path: Path) -> None:
    path = "pyrmq/sync/_generated_outbox.py"
    (tmp_path / "pyrmq" / "sync").mkdir(parents=True)
    (tmp_path / path).write_text((ROOT / path).read_text() + "# edited\n")
    done = check(root=tmp_path)
    assert f"{path} is stale" in done.stdout
    assert "-# edited" in done.stdout
