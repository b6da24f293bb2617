"""The warnings and errors that pyrmq logs, in Python and in the engine, and those of docs/logs.md.

A text has `…` where a call puts something in. Run it to see which ones the page does not list, and
which of the page nobody logs any more.
"""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "logs.md"
LEVELS = {"warning", "error", "exception", "critical", "log"}
LOGS = {"log", "lines_log"}
_PUT_IN = re.compile(r"%[-+0-9.]*[a-z]")
_RUST = re.compile(
    r"\blog::(?:warn|error)!\((?:[^\";]*;)?\s*\"((?:[^\"\\]|\\.)*)\"", re.DOTALL
)  # before the text what it is about: topic:% = name, queue = 3;


@cache
def python_forms() -> list[tuple[str, str]]:
    """Texts and where they are logged. A level that is decided at run time may be a warning."""
    forms = []
    for path in sorted((ROOT / "pyrmq").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            called, owner = node.func.attr, node.func.value
            if called not in LEVELS or not _is_logger(owner):
                continue
            text = node.args[called == "log"]
            place = f"{path.relative_to(ROOT)}:{node.lineno}"
            assert isinstance(text, ast.Constant), f"{place}: the text of a log call is a constant"
            forms.append((_PUT_IN.sub("…", str(text.value)), place))
    return forms


def _is_logger(owner: ast.expr) -> bool:
    if isinstance(owner, ast.Call):
        return ast.unparse(owner.func) == "logging.getLogger"
    return isinstance(owner, ast.Name) and owner.id in LOGS


@cache
def engine_forms() -> list[tuple[str, str]]:
    forms = []
    for folder in ("crates", "src"):
        for path in sorted((ROOT / "native" / folder).rglob("*.rs")):
            text = path.read_text(encoding="utf-8")
            for found in _RUST.finditer(text):
                form = re.sub(r"\\\n\s*", "", found[1])
                line = text.count("\n", 0, found.start()) + 1
                shown = re.sub(r"\{[^}]*\}", "…", form)
                forms.append((shown, f"{path.relative_to(ROOT)}:{line}"))
    return forms


def listed() -> list[str]:
    """The texts of the page's tables, in its order."""
    text = PAGE.read_text(encoding="utf-8").partition("## Each warning and error\n")[2]
    return [row[1] for row in re.findall(r"^\| (``?) ?(.+?) ?\1 \| ", text, re.MULTILINE)]


def missing() -> list[str]:
    """What is logged and not listed."""
    rows = set(listed())
    forms = [*python_forms(), *engine_forms()]
    return [f"{place}: {form}" for form, place in forms if form not in rows]


def stale() -> list[str]:
    """What is listed and not logged."""
    forms = {form for form, _ in (*python_forms(), *engine_forms())}
    return [row for row in listed() if row not in forms]


if __name__ == "__main__":
    wrong = [f"not listed: {text}" for text in missing()]
    wrong += [f"nobody logs: {text}" for text in stale()]
    print("\n".join(wrong) or "docs/logs.md lists all warnings and errors")
    sys.exit(bool(wrong))
