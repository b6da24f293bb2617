"""The programs in examples/, whole, against one broker; each is run as its docstring says."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples"
PRINTED = {
    "send": """
order-1: SEND_OK
order-2 to order-101: 100 sent, each of them acknowledged
a click: sent, not acknowledged
refused (UnusableNameError, retriable: False)
""",
    "consume": """
parcel-1: shipped, attempt 1
parcel-2: shipped, attempt 1
parcel-3: no label, later
parcel-3: shipped, attempt 2
parcel-4: shipped, attempt 1
parcel-5: shipped, attempt 1
""",
    "batch": """
2000 readings sent in 6 batches
all of them stored in … calls
""",
    "ordered": """
order-1: created, paid, packed, shipped
order-2: created, paid, packed, shipped
order-3: created, paid, packed, shipped
order-4: created, paid, packed, shipped
order-5: created, paid, packed, shipped
""",
    "delayed": """
booking-1: seats kept
booking-1: not paid after … s, seats are free again
""",
    "timers": """
ann: to be reminded
bob: to be reminded
cid: to be reminded
cid: has cancelled
bob: your appointment
ann: your appointment
""",
    "broadcast": """
web-1: {'book': '12.50', 'map': '7.90', 'pen': '1.20'}
web-2: {'book': '12.50', 'map': '7.90', 'pen': '1.20'}
""",
    "filter_tags": """
accounting: payment-1 paid
accounting: payment-3 paid
accounting: payment-4 refunded
accounting: payment-6 paid
fraud-team: payment-2 failed
fraud-team: payment-5 failed
""",
    "filter_sql": """
bicycle: 1 kg, north
bicycle: 2 kg, east
van: 12 kg, north
van: 25 kg, north
""",
    "transaction": """
order-1: 2 books, COMMIT
order-2: 500 books, ROLLBACK
order-3: 1 books, UNKNOWN
order-3: waiting until the broker asks ...
order-1: delivered
order-3: the broker asks; stored
order-3: delivered
""",
    "request_reply": """
book: 12.50
pen: 1.20
boat: not for sale
""",
    "lite_pull_subscribe": """
100 page views imported from 4 queues
the group goes on at 0:…, 1:…, 2:…, 3:…
""",
    "lite_pull_assign": """
ann paid 17
bob paid 25
cid paid 3
""",
    "simple_consumer": """
short: converted, attempt 1
broken: its worker dies
long: converted, attempt 1
broken: converted, attempt 2
""",
    "trace": """
Pub invoice-1
SubAfter invoice-1
SubBefore invoice-1
""",
    "namespace": """
Orders of shop-a: an order of shop-a
Orders of shop-b: an order of shop-b
""",
    "oms": """
order-1: 0.3 kg
pushed:
  a book
  a map
  a pen
pulled:
  a book
  a map
  a pen
""",
    "asyncio_service": """
order-1: confirmed
order-2: confirmed
order-3: confirmed
order-4: confirmed
order-5: confirmed
""",
    "plain_worker": """
ann@example.org: welcome, ann@example.org
bob@example.org: welcome, bob@example.org
cid: no mail address, to the dead-letter topic
dan@example.org: welcome, dan@example.org
""",
}
"""What each program prints, in whatever order messages come; … stands for a number."""
NUMBER = re.compile(r"(?<=after )[\d.]+|(?<=stored in )\d+|(?<=\d:)\d+")
OTHERS = {"outbox", "test_shop"}
"""Programs that bring their broker: tests/outbox/e2e/test_example.py, and below."""


@pytest.mark.parametrize("name", PRINTED)
def test_program(
    name: str, namesrv: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(EXAMPLES / f"{name}.py")
    monkeypatch.setattr(sys, "argv", [path, "--namesrv", namesrv])
    runpy.run_path(path, run_name="__main__")
    out, err = capsys.readouterr()
    assert err == ""
    if name == "delayed":
        assert float(re.findall(r"after (\S+) s", out)[0]) >= 1
    # On a busy machine a send is tried again and its message comes twice, or the broker asks for an
    # order before its local transaction has begun.
    lines = {NUMBER.sub("…", line) for line in out.splitlines() if "asks; not known" not in line}
    assert lines == set(PRINTED[name].strip("\n").split("\n"))


def test_the_tests_of_a_shop(tmp_path: Path) -> None:
    """With no plugin but the package's own, which pytest finds by itself where it is installed."""
    command = [sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["-p", "pyrmq.pytest_plugin", shutil.copy(EXAMPLES / "test_shop.py", tmp_path)]
    environment = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | environment,
        timeout=60,
        check=False,
    )
    assert "4 passed" in done.stdout, done.stdout + done.stderr


def test_they_are_alike() -> None:
    """All have the same option, and say in their first lines what they show and how to run them."""
    found = {path.stem: path.read_text() for path in EXAMPLES.glob("*.py")}
    assert found.keys() == PRINTED.keys() | OTHERS
    for name in PRINTED:
        assert 'add_argument("--namesrv", default="127.0.0.1:9876"' in found[name]
        assert f"\n    python examples/{name}.py [--namesrv HOST:PORT]\n" in found[name]
        assert len(found[name].splitlines()) <= 110, name


def test_the_readme_lists_them() -> None:
    section = (ROOT / "README.md").read_text().partition("\n## Examples\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| \[(\w+)\.py\]\(examples/(\w+)\.py\) \| (.+) \| (.+) \|$", section, re.M)
    assert [name for name, *_ in rows] == [path for _, path, *_ in rows]
    assert {name for name, *_ in rows} == PRINTED.keys() | OTHERS
    assert len(rows) == len(PRINTED) + len(OTHERS)
