"""Foreign text cannot steer a terminal or forge a line; all that is logged goes through it."""

from __future__ import annotations

import ast
import json
import logging
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyrmq.escape import escape, escape_bytes, json_line
from pyrmq.logs.lines import LineFormatter

ROOT = Path(__file__).resolve().parents[3]
TITLE = "\x1b]0;owned\x07"
FOREIGN = [
    (TITLE, r"\x1b]0;owned\x07"),
    ("\x1b[2J", r"\x1b[2J"),
    ("\x9b31m", r"\x9b31m"),
    ("a\r\nINFO forged", r"a\r\nINFO forged"),
    ("a\tb\0\x7f", r"a\tb\x00\x7f"),
    ("\u2028\u2029\x85", r"\u2028\u2029\x85"),
    ("\u202eabc\u2066\u200f\u061c", r"\u202eabc\u2066\u200f\u061c"),
    ("\ufeff\u200b\xad\xa0", r"\ufeff\u200b\xad\xa0"),
    ("\U000e0041", r"\U000e0041"),
    ("\ud800", r"\ud800"),
    ("grüße ✓ 日本 😀 C:\\x", "grüße ✓ 日本 😀 C:\\x"),
    ("", ""),
]


@pytest.mark.parametrize(("text", "shown"), FOREIGN)
def test_escape(text: str, shown: str) -> None:
    assert escape(text) == shown
    assert escape(shown) == shown
    assert escape(ValueError(text)) == shown


@pytest.mark.parametrize(("text", "_"), FOREIGN)
def test_json_says_the_same_and_shows_nothing_hidden(text: str, _: str) -> None:
    value = {text: [text, 1, None], "k": text + "é"}
    line = json_line(value)
    assert json.loads(line) == value
    assert line.isprintable()
    assert "é" in line


def test_every_character_comes_out_printable() -> None:
    everything = "".join(map(chr, [*range(0x12000), *range(0xE0000, 0xE0200), sys.maxunicode]))
    assert escape(everything).isprintable()
    assert json_line(everything).isprintable()
    assert json.loads(json_line("".join(filter(str.isprintable, everything)))) == "".join(
        filter(str.isprintable, everything)
    )


def test_bytes() -> None:
    assert escape_bytes("ü\n".encode() + b"\xff\x1b") == r"ü\n\xff\x1b"


def test_a_log_line_stays_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """Also the text of an exception, which no caller could escape."""
    form = LineFormatter("%(levelname)s %(name)s: %(message)s")
    try:
        raise ValueError(f"a\nINFO x: forged {TITLE}")
    except ValueError:
        logging.getLogger("x").exception("of %s", f"b\n{TITLE}")
    (record,) = caplog.records
    first, *rest = form.format(record).split("\n")
    assert first == r"ERROR x: of b\n\x1b]0;owned\x07"
    assert all(line.startswith("    ") and line.isprintable() for line in rest)
    assert rest[-1] == r"    INFO x: forged \x1b]0;owned\x07"


OWN = {
    # Our own names and constants, numeric addresses of connections, paths of the configuration.
    "CHECK_MAX_TOPIC",
    "INDEX_SETTING",
    "SOCKET",
    "WATCHDOG",
    "__version__",
    "call.state",
    "connection.peer",
    "event.value",
    "found",
    "now.broker_drain",
    "more",
    "outcome.state",
    "path",
    "self._message_id(phys)",
    "self._name",
    "self.group",
    "self.name",
    "since",
    "state",
    "what",
}
LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}


def log_arguments() -> Iterator[tuple[str, str]]:
    """Where a log call puts something into its text with %s, and what."""
    for path in sorted([*(ROOT / "pyrmq").rglob("*.py"), *(ROOT / "spark_ext").rglob("*.py")]):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id == "log"
                and node.func.attr in LEVELS
            ):
                continue
            text, *values = node.args
            place = f"{path.relative_to(ROOT)}:{node.lineno}"
            assert isinstance(text, ast.Constant), f"{place}: the text of a log call is a constant"
            forms = re.findall(r"%[-+0-9.]*[a-z]", str(text.value))
            assert len(forms) == len(values), place
            for form, value in zip(forms, values, strict=True):
                if form == "%s":
                    yield place, ast.unparse(value)


def test_what_is_logged_is_escaped() -> None:
    found = list(log_arguments())
    assert len(found) > 80
    bare = [(at, text) for at, text in found if not text.startswith("escape(")]
    assert [one for one in bare if one[1] not in OWN] == [], "escape(…) it, or add it to OWN"
    assert {text for _, text in bare} == OWN
