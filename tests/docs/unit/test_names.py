"""What documents and comments name is there: paths, modules, members of classes, make targets."""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TOPS = (
    "pyrmq", "native", "tests", "docs", "scripts", "spark_ext", "benches", "examples",
    "build_backend", "pyspark_rocketmq", "pyspark_pyrmq", "spark_jvm",
)  # fmt: skip
CODE = {".py", ".pyi", ".pyx", ".pxi", ".pxd", ".rs", ".h"}
TEXT = CODE | {".md", ".toml", ".sh", ".txt", ".yml", ""}
MADE = {".build", "jars", "target"}
"""Folders that a build makes."""
INVENTED = {
    "docs/first-change.md": "makes new files: tests/docs/e2e/test_first_change.py",
    "tests/docs/unit/test_names.py": "has wrong names, to find them",
    "tests/house/unit/test_architecture.py": "plants files",
    "tests/house/unit/test_check_layers.py": "plants files",
    "tests/house/unit/test_exports.py": "has wrong names, to find them",
    "tests/house/unit/test_installation.py": "has names of PyRMQ",
    "tests/house/unit/test_wheel_contents.py": "makes up wheels",
    "scripts/portals.py": "gives ruff a name for what it formats",
}
"""Files that name what does not exist, and why."""
NO_MODULE = {
    "benches.items": "a dict of tests/bench/unit/test_peers.py",
    "pyrmq.audit": "a logger",
    "pyrmq.audit.console": "a logger",
    "pyrmq.outbox.identity": "a file of the outbox",
    "pyrmq.topic": "a property of a table",
    "pyrmq.body": "a property of a table",
    "pyrmq.dead": "a property of a table",
    "pyrmq.ends": "a property of a table",
    "pyrmq.commit": "a property of a table",
    "pyrmq.lost": "a property of a snapshot",
    "pyrmq.replaced": "a property of a snapshot",
    "pyrmq.mq.orders": "a table in Spark",
    "pyrmq.system.rewrite_data_files": "a procedure in Spark",
    "pyrmq.mq.orders_stream": "a table in Spark",
}
JAVA = "spark_jvm/src/main/java"
PATH = re.compile(rf"(?<![\w/.$}}-])(?:{'|'.join(TOPS)})/[\w./-]*\w(?![\w/.-]*[*{{}}<$…])")
DOTTED = re.compile(r"(?<![\w./@-])(?:pyrmq|spark_ext|tests|benches)(?:\.[A-Za-z_]\w*)+")
FILE = re.compile(
    r".+\.(?:py|pyi|pyx|pxi|pxd|md|rs|conf|toml|so|h|sh|txt|json|log|service|db|java|go)"
)
MAKE = re.compile(r"`make ([a-z][a-z -]*[a-z])[` ]")
MEMBER = re.compile(r"`([A-Z]\w+)(?:\.|::)([A-Za-z_]\w*)")
DEFINED = re.compile(
    r"^\s*(?:pub(?:\([^)]*\))? )?(?:cdef )?(?:class|struct|enum|trait|union|impl(?:<[^>]*>)?"
    r"(?: [\w:<>', ]+ for)?) (\w+)",
    re.MULTILINE,
)
BASES = re.compile(r"^\s*class (\w+)(?:\[[^\]]*\])?\(([^)]*)\)", re.MULTILINE)


@cache
def files() -> dict[str, str]:
    """The texts of the repository, by path."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if ran.returncode:
        pytest.skip("this is no checkout")
    return {
        name: (ROOT / name).read_text(encoding="utf-8")
        for name in ran.stdout.splitlines()
        if Path(name).suffix in TEXT and (ROOT / name).is_file() and "/corpus/" not in name
    }


def lines() -> Iterator[tuple[str, str]]:
    """Where a line stands, and the line."""
    for name, text in files().items():
        if name not in INVENTED:
            for number, line in enumerate(text.splitlines(), 1):
                yield f"{name}:{number}", line


def is_path(name: str) -> bool:
    if name.startswith("native/linux-"):  # of a jar
        return True
    if name.startswith("pyrmq/spark"):  # a class, as Java's linker names it
        return (ROOT / JAVA / name).with_suffix(".java").exists()
    return bool(MADE & set(Path(name).parts)) or (ROOT / name).exists()


def is_name(name: str) -> bool:
    """Whether the module is there, and has a word for what follows it."""
    parts = name.split(".")
    if parts[:2] == ["pyrmq", "spark"]:
        return is_java(parts)
    if parts[1] == "_native" or parts[-1].startswith("__"):
        return True  # the first is built, and Python gives the others
    for end in range(len(parts), 0, -1):
        path = ROOT.joinpath(*parts[:end])
        found = [path.with_suffix(f".{kind}") for kind in ("py", "pyx", "pyi", "pxd")]
        found = [file for file in (*found, path / "__init__.py") if file.is_file()]
        if found or path.is_dir():
            words = " ".join(file.read_text(encoding="utf-8") for file in found)
            return end == len(parts) or re.search(rf"\b{parts[end]}\b", words) is not None
    return False


def is_java(parts: list[str]) -> bool:
    """Whether it is of the package of Spark's reader: a class, or a system property."""
    path = ROOT / JAVA / "pyrmq/spark"
    if len(parts) == 2 or path.joinpath(parts[2]).with_suffix(".java").is_file():
        return True
    return any(f'"{".".join(parts)}"' in file.read_text() for file in path.glob("*.java"))


def is_placeholder(name: str) -> bool:
    return name.endswith(".NAME")


@cache
def targets() -> set[str]:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    forms = re.search(r"^LONG_FORMS := (.+)$", text, re.MULTILINE)
    assert forms is not None
    return {
        *re.findall(r"^([a-z][\w-]*):", text, re.MULTILINE),
        *(f"thorough-{form}" for form in forms[1].split()),
    }


@cache
def classes() -> tuple[dict[str, list[str]], dict[str, set[str]]]:
    """The texts of the files that define a class or give it methods, and its bases."""
    texts: dict[str, list[str]] = defaultdict(list)
    bases: dict[str, set[str]] = defaultdict(set)
    for name, text in files().items():
        if Path(name).suffix in CODE:
            for found in set(DEFINED.findall(text)):
                texts[found].append(MEMBER.sub("", text))
            for found, above in BASES.findall(text):
                bases[found] |= {base.partition("[")[0] for base in re.findall(r"\w+", above)}
    return texts, bases


def has_member(owner: str, member: str) -> bool:
    """Whether a file that defines a class, or a class above it, has the word. True of a class with
    a foreign one above it."""
    texts, bases = classes()
    if any(re.search(rf"\b{member}\b", text) for text in texts[owner]):
        return True
    return any(base not in texts or has_member(base, member) for base in bases[owner] - {owner})


def test_paths_are_there() -> None:
    missing = [
        f"{place}: {path}"
        for place, line in lines()
        for path in PATH.findall(line)
        if not is_path(path) and not is_path(f"{Path(place).parent}/{path}")
    ]
    assert not missing


def test_modules_and_what_is_named_of_them_are_there() -> None:
    missing = [
        f"{place}: {name}"
        for place, line in lines()
        for name in DOTTED.findall(line)
        if not (FILE.fullmatch(name) or is_placeholder(name) or name in NO_MODULE or is_name(name))
    ]
    assert not missing


def test_members_are_there() -> None:
    missing = [
        f"{place}: {owner}.{member}"
        for place, line in lines()
        for owner, member in MEMBER.findall(line)
        if owner in classes()[0] and not FILE.fullmatch(f"{owner}.{member}")
        if not has_member(owner, member)
    ]
    assert not missing


def test_make_targets_are_there() -> None:
    missing = [
        f"{place}: {target}"
        for place, line in lines()
        for words in MAKE.findall(line)
        for target in words.split()
        if target not in targets()
    ]
    assert not missing


def test_what_is_not_there_is_found() -> None:
    assert PATH.findall("see tests/net/unit/gone.py, and pyrmq/*.so or docs/x-{n}.md") == [
        "tests/net/unit/gone.py"
    ]
    assert not is_path("tests/net/unit/gone.py")
    assert is_path("tests/system/interop/.build/x.jar")
    assert DOTTED.findall("from tests.interop.store import peer") == ["tests.interop.store"]
    assert not is_name("tests.interop.store")
    assert not is_name("pyrmq.net.server.reader.Writer")
    assert is_name("pyrmq.net.server.reader.Reader.run")
    assert MAKE.findall("`make lint test` and `make bench`") == ["lint test", "bench"]
    assert "bench-peers" not in targets()
    assert not has_member("Feeder", "absent")
    assert has_member("Feeder", "_process")


def test_the_page_of_the_doctor_has_each_check() -> None:
    from pyrmq.doctor.table import CHECKS

    page = (ROOT / "docs" / "doctor.md").read_text(encoding="utf-8").partition("## Checks")[2]
    rows = [line.split(" | ")[0].removeprefix("| ") for line in page.splitlines()]
    assert [row for row in rows if row in CHECKS] == list(CHECKS)
