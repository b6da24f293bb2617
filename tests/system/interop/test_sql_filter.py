"""Random SQL92 expressions: our filter beside Apache RocketMQ's own, in one JVM.

Both have to agree on whether an expression compiles, and on which messages it selects. What differs
(docs/differences.md) lies beyond what is generated.
"""

from __future__ import annotations

import base64
from collections import Counter
from pathlib import Path

import pytest

from pyrmq.engine import SqlFilter
from tests.support.thorough import seeds, size

from .sql_cases import Case, Cases
from .store import peer

COUNT = size("PYRMQ_SQL_EXPRESSIONS", 4_000, 200_000)
"""Expressions at least; each meets four messages."""
SHOWN = 10


def theirs(home: Path, cases: list[Case]) -> list[str]:
    """C where an expression does not compile, otherwise T, F, N (NULL) or E (an exception) for each
    message."""
    file = home / "cases.txt"
    lines = (
        " ".join(base64.b64encode(word).decode() for word in (c.expression.encode(), *c.properties))
        for c in cases
    )
    file.write_text("".join(f"{line}\n" for line in lines))
    answers = peer.run(home, "interop.filter.SqlCases", str(file), timeout=300).splitlines()
    assert len(answers) == len(cases)
    return answers


def ours(case: Case) -> str:
    """C where it does not compile, otherwise T or - for each message."""
    try:
        program = SqlFilter(case.expression)
    except ValueError:
        return "C"
    return "".join("T" if program.matches(one) else "-" for one in case.properties)


@pytest.mark.parametrize("seed", seeds("sql-filter"))
def test_random_expressions(seed: int, home: Path) -> None:
    made, cases = Cases(seed), list[Case]()
    while len(cases) < COUNT:
        cases += made.next()
    answers = theirs(home, cases)
    wrong = []
    for case, answer in zip(cases, answers, strict=True):
        expected = answer if answer == "C" else "".join("T" if a == "T" else "-" for a in answer)
        if (found := ours(case)) != expected:
            wrong.append(f"{case.expression!r} over {case.properties}: {answer}, here {found}")
    shown = "\n".join(sorted(wrong, key=len)[:SHOWN])
    assert not wrong, f"{len(wrong)} of {len(cases)} differ:\n{shown}"

    # Otherwise it would have compared little.
    every = Counter("".join(answers))
    assert every["C"] < len(cases) / 2
    assert min(every[kind] for kind in "TFNE") > len(cases) / 10, every


def test_what_differs(home: Path) -> None:
    """The differences that stay."""
    long = " OR ".join(["a = 'x'"] * 2_000)
    deep = "(" * 129 + "a = 'x'" + ")" * 129
    x = b"a\x01x\x02"
    large = b"a\x01" + b"1" * ((1 << 20) + 1) + b"\x02"
    surrogate = b"a\x01\xed\xa0\x80\x02"
    cases = [
        Case(long, (x,)),
        Case(deep, (x,)),
        Case("a <> 'x' OR b = 'y'", (large,)),
        Case("a = '\ufffd'", (surrogate,)),
        Case("a = '\ufffd\ufffd\ufffd'", (surrogate,)),
    ]
    assert theirs(home, cases) == ["T", "T", "T", "T", "F"]
    assert [ours(case) for case in cases] == ["C", "C", "-", "-", "T"]
