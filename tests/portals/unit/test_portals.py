"""The clients for asyncio and for threads have all that the clients for trio have: the check."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent.parent
SCRIPTS = ROOT / "scripts"
PROGRAM = f"""
import json, os, pathlib, sys, traceback
sys.path.insert(0, {str(SCRIPTS)!r})
import portals
import pyrmq.admin.topics
for name, case in json.load(sys.stdin).items():
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        print(json.dumps([name, os.waitstatus_to_exitcode(status)]))
        sys.stdout.flush()
        continue
    code = 1
    try:
        said = os.open(case["said"], os.O_WRONLY | os.O_CREAT)
        os.dup2(said, 1)
        os.dup2(said, 2)
        exec(case["change"])
        code = portals.main(["--check"], pathlib.Path(case["root"]))
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    os._exit(code)
"""
"""Each check in a process of its own, as it changes classes; what it needs is imported once."""
NEW_METHODS = """
async def more(self): ...
from pyrmq.admin.topics import Topics
from pyrmq.client.producer.producer import Producer
from pyrmq.oms import PullConsumer
for kind in (Topics, Producer, PullConsumer):
    kind.more = more
"""
REFUSED = {
    "del pyrmq.admin.topics.Topics.list": "-    list = awaited(TrioTopics.list)",
    "pyrmq.client.PendingSend.__aenter__ = 1": "pyrmq.client.PendingSend is in no file",
    "del pyrmq.client.consumer.lite_pull.LitePullConsumer.saw": "LitePullConsumer has no saw",
    (
        "pyrmq.client.producer.producer.Producer.start = lambda self: None"
    ): "Producer.start: each client here has a start",
}
"""Changes, and the fault that is told of each."""
EDITED = "pyrmq/sync/_generated_outbox.py"


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check ended with, and what it printed."""

    code: int
    said: str


@pytest.fixture(scope="module")
def checks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Checked]:
    """The checks by their change; "edited" is one of other files."""
    folder = tmp_path_factory.mktemp("portals")
    edited = folder / "edited" / EDITED
    edited.parent.mkdir(parents=True)
    edited.write_text((ROOT / EDITED).read_text() + "# edited\n")
    changes = ["", NEW_METHODS, *REFUSED]
    cases = {change: {"change": change, "root": str(ROOT)} for change in changes}
    cases["edited"] = {"change": "", "root": str(folder / "edited")}
    for number, case in enumerate(cases.values()):
        case["said"] = str(folder / str(number))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        input=json.dumps(cases),
        text=True,
        capture_output=True,
        check=True,
    )
    codes = dict(json.loads(line) for line in done.stdout.splitlines())
    return {
        name: Checked(codes[name], Path(case["said"]).read_text()) for name, case in cases.items()
    }


def test_all_is_as_it_would_be_written(checks: dict[str, Checked]) -> None:
    assert checks[""].code == 0, checks[""].said


def test_a_new_method_is_missed(checks: dict[str, Checked]) -> None:
    done = checks[NEW_METHODS]
    assert done.code == 1
    for name, call in (("aio", "awaited"), ("sync", "blocking")):
        for package in (f"pyrmq/{name}", f"pyrmq/oms/{name}"):
            assert f"{package}/_generated_clients.py is stale" in done.said
        for kind in ("Producer", "TransactionalProducer", "PullConsumer", "Topics"):
            assert f"+    more = {call}(Trio{kind}.more)" in done.said
    assert "_generated_outbox" not in done.said


@pytest.mark.parametrize(("change", "fault"), REFUSED.items())
def test_what_else_is_refused(checks: dict[str, Checked], change: str, fault: str) -> None:
    assert checks[change].code == 1
    assert fault in checks[change].said


def test_a_file_that_was_edited_is_stale(checks: dict[str, Checked]) -> None:
    assert checks["edited"].code == 1
    assert f"{EDITED} is stale" in checks["edited"].said
    assert "-# edited" in checks["edited"].said
