"""What a row of the table is: a command line, and what of its output may differ."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

FLAGS = "(?m)"


class Who(StrEnum):
    """Whose: of a tool, or of servers."""

    OURS = "ours"
    THEIRS = "theirs"


@dataclass(frozen=True, slots=True)
class Differs:
    """A difference that is meant. What `pattern` finds is `text` on both sides; `who` says whether
    it is our command (`tool`) or our servers (`server`) that it comes from."""

    who: str
    because: str
    pattern: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """A command line with {places} in it; see `state.py` for what there is. Cases of a kind run in
    their order, each on what the ones before have left."""

    line: str
    loose: tuple[tuple[str, str], ...] = ()
    """What is not the same in two runs: patterns, and what stands for them."""
    unordered: bool = False
    """The lines behind the first have no order."""
    differs: tuple[Differs, ...] = ()
    files: dict[str, str] = field(default_factory=dict)
    """Written into {dir} before."""
    shows: tuple[str, ...] = ()
    """Files below {dir} that the command writes: part of what it prints."""
    apart: bool = False
    """The original ends its process: it needs one of its own."""
    until: str = ""
    """It never ends: it is stopped when this was printed."""
    unregistered: bool = False
    """The original has it, but does not offer it."""

    @property
    def name(self) -> str:
        return self.line.split()[0]


def tool(because: str, pattern: str, text: str = "") -> Differs:
    """Something that our command does in another way."""
    return Differs("tool", because, pattern, text)


def server(because: str, pattern: str, text: str = "") -> Differs:
    """Something that our servers do in another way."""
    return Differs("server", because, pattern, text)


NUMBER = r"\d+(?:\.\d+)?"


def field_of(label: str) -> tuple[str, str]:
    """The rest of the lines that begin with `label` is volatile."""
    return rf"^({label}).*$", r"\1 <any>"
