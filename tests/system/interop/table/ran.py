"""What a command has printed, brought into a form that can be compared."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .case import Case

CODE = re.compile(r"CODE: *(-?\d+) ")
FAILURE = re.compile(r"Exception\b|CODE: *-?\d+ |\bError:")
NOISE = re.compile(r" \|-|^RocketMQLog:WARN|^WARNING: |^SLF4J", re.MULTILINE)
OPTION = re.compile(r"^ *(?:-(\w+),)?--([\w ]+?)(?: <arg>)? *(?:   .*)?$")
GENERAL = (
    (r"\d{4}-\d\d-\d\d[ #]\d\d:\d\d:\d\d(?:[,:]\d{3})?", "<time>"),
    (r"\b1[6-9]\d{11}\b", "<millis>"),
    (r"127\.0\.0\.1:\d{4,5}\b", "<address>"),
    (r"\b[0-9A-F]{32}\b", "<id>"),
    (r"(?m)[ \t]+$", ""),
)


@dataclass(frozen=True, slots=True)
class Ran:
    """`code`: the exit code, which the original seldom has; None where it is none of ours."""

    code: int
    out: str
    err: str

    @property
    def ended(self) -> str:
        """How it ended, alike for both tools: the original's exit code is 0 for most failures."""
        if "usage: mqadmin" in self.out + self.err:
            return "usage"
        found = CODE.search(self.err) or CODE.search(self.out)
        if found and found[1] != "-1":
            return f"error {found[1]}"
        if self.code not in (0, 124) or FAILURE.search(self.err):
            return "failed"
        return "ok"


def without_log(text: str) -> str:
    """Without what libraries log to stdout and stderr."""
    return "".join(line for line in text.splitlines(True) if not NOISE.search(line))


def text(case: Case, ran: Ran, places: dict[str, str]) -> str:
    """How it ended and what it printed on stdout, the same for all runs in the same state."""
    if case.line.startswith("help "):
        return "\n".join(["ended: ok", *options(ran.out)])
    out = ran.out
    for name, value in sorted(places.items(), key=lambda item: -len(item[1])):
        if len(value) > 4:
            out = out.replace(value, f"<{name}>")
    for pattern, instead in (*GENERAL, *case.loose):
        out = re.sub(pattern, instead, out, flags=re.MULTILINE)
    if ran.ended == "usage":
        out = ""  # the texts of two parsers
    lines = out.strip().splitlines()
    if case.unordered:
        lines = lines[:1] + sorted(lines[1:])
    return "\n".join([f"ended: {ran.ended}", *lines])


def options(usage: str) -> list[str]:
    """The options that a usage text lists, and whether they take a value."""
    found = set()
    for line in usage.splitlines():
        match = OPTION.match(line)
        if match:
            value = " <arg>" if "<arg>" in line else ""
            short = f"-{match[1]}," if match[1] else ""
            found.add(f"{short}--{match[2].strip()}{value}")
    return sorted(found)
