"""Options of mqadmin's commands, as the original's parser takes them. [commons-cli DefaultParser]

`-x v`, `-xv`, `--long v`, `--long=v`; a long name may be cut to what is still unique, and stand
behind one dash. A value may begin with a dash.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyrmq.admin.near import near

if TYPE_CHECKING:
    from pyrmq.admin.api import Admin
    from pyrmq.cli.mqadmin.output import Output


BLANKS = "".join(map(chr, range(0x21)))
"""What is stripped of a text: U+3000 at its end, say, may belong to a key. [String.trim]"""


class UsageError(Exception):
    """The command line is invalid."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option. `short` without its dash, such as `t` or `qn`; `long` without its dashes."""

    short: str | None
    long: str
    help: str
    required: bool = False
    flag: bool = False
    default: str | None = None

    @property
    def names(self) -> str:
        short = f"-{self.short}," if self.short else ""
        return f"{short}--{self.long}"


HELP = Option("h", "help", "Print help", flag=True)
NAMESRV = Option("n", "namesrvAddr", "Name server address list, eg: '192.168.0.1:9876;…'")
COMMON = (HELP, NAMESRV)
Run = Callable[["Admin", "Values", "Output"], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class Command:
    """A command: `run` gets an Admin that is connected, the options and where to print."""

    name: str
    options: tuple[Option, ...]
    run: Run
    exactly_one: tuple[tuple[str, ...], ...] = ()
    """Long names of which exactly one has to be given."""
    local: bool = False
    """Whether it needs no server: `run` gets an Admin that cannot be used."""
    needs_name_server: bool = True
    progress: bool = True
    """Whether it is shown how far it is."""

    @property
    def all_options(self) -> tuple[Option, ...]:
        own = {o.short for o in self.options} | {o.long for o in self.options}
        return (*self.options, *(o for o in COMMON if o.short not in own and o.long not in own))


@dataclass(frozen=True, slots=True)
class Values:
    """What was given for a command's options, by long name. Texts are stripped of blanks."""

    command: Command
    given: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, long: str) -> str:
        """The text of an option that is required, or has a default."""
        value = self.get(long)
        if value is None:
            raise KeyError(f"{long} has no value and no default")
        return value

    def get(self, long: str) -> str | None:
        """The text of an option, its default, or None."""
        if long in self.given:
            return self.given[long].strip(BLANKS)
        return self._option(long).default

    def has(self, long: str) -> bool:
        """Whether it was given."""
        self._option(long)
        return long in self.given

    def number(self, long: str, low: int = 0, high: int = 2**63 - 1) -> int:
        """An option as a number. UsageError if it is none, or out of range."""
        text = self[long]
        digits = text[1:] if text[:1] == "-" else text
        if not (digits.isascii() and digits.isdecimal()) or len(digits) > 19:
            raise UsageError(f"--{long} takes a number, not {text!r}")
        if not low <= int(text) <= high:
            raise UsageError(f"--{long} takes a number from {low} to {high}, not {text}")
        return int(text)

    def number_or(self, long: str, absent: int, low: int = 0, high: int = 2**63 - 1) -> int:
        """The same; `absent` for an option that was not given and has no default."""
        return absent if self.get(long) is None else self.number(long, low, high)

    def truth(self, long: str) -> bool:
        """An option that is `true` or `false`. UsageError for anything else."""
        text = self[long].lower()
        if text not in ("true", "false"):
            raise UsageError(f"--{long} takes true or false, not {self[long]!r}")
        return text == "true"

    def items(self, long: str, by: str = ",") -> list[str]:
        """The parts of a list, without empty ones."""
        parts = [part.strip(BLANKS) for part in (self.get(long) or "").split(by)]
        return [part for part in parts if part]

    def _option(self, long: str) -> Option:
        for option in self.command.all_options:
            if option.long == long:
                return option
        raise KeyError(f"{self.command.name} has no option --{long}")


def parse(command: Command, arguments: Sequence[str]) -> Values:
    """Reads a command line. UsageError; `--help` anywhere gives Values that have it alone."""
    given: dict[str, str] = {}
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        option, value = _option(command, word)
        if option is HELP:
            return Values(command, {"help": ""})
        if option.flag:
            if value is not None:
                raise UsageError(f"{option.names} takes no value")
            given[option.long] = ""
            continue
        if value is None:
            if not rest:
                raise UsageError(f"Missing argument for option: {option.short or option.long}")
            value = rest.pop(0)
        given[option.long] = value
    missing = [o for o in command.all_options if o.required and o.long not in given]
    if missing:
        word = "option" if len(missing) == 1 else "options"
        names = ", ".join(o.short or o.long for o in missing)
        raise UsageError(f"Missing required {word}: {names}")
    for group in command.exactly_one:
        many = [name for name in group if name in given]
        if len(many) != 1:
            names = " and ".join(f"--{name}" for name in (many or group))
            what = "one of" if not many else "only one of"
            raise UsageError(f"give {what} {names.replace(' and ', ', ')}")
    return Values(command, given)


def _option(command: Command, word: str) -> tuple[Option, str | None]:
    """The option that a word names, and the value that it carries."""
    if not word.startswith("-") or word in ("-", "--"):
        raise UsageError(f"Unrecognized argument: {word}")
    name, sign, value = word.lstrip("-").partition("=")
    carried = value if sign else None
    options = command.all_options
    if not word.startswith("--"):
        for option in options:
            if option.short == name:
                return option, carried
    for option in options:
        if option.long == name:
            return option, carried
    if not word.startswith("--"):  # -xVALUE
        text = word[1:]
        fitting = [
            o
            for o in options
            if o.short and not o.flag and len(text) > len(o.short) and text.startswith(o.short)
        ]
        if fitting:
            option = max(fitting, key=lambda o: len(o.short or ""))
            return option, text[len(option.short or "") :]
    begun = [o for o in options if name and o.long.startswith(name)]
    if len(begun) == 1:
        return begun[0], carried
    if len(begun) > 1:
        names = ", ".join(f"--{o.long}" for o in begun)
        raise UsageError(f"Ambiguous option: {word}  (could be: {names})")
    known = [f"--{o.long}" for o in options] + [f"-{o.short}" for o in options if o.short]
    raise UsageError(f"Unrecognized option: {word}{near(word, known)}")


def usage(command: Command) -> list[str]:
    """What `-h` prints: each option on a line, required ones marked."""
    lines = [f"usage: mqadmin {command.name} " + " ".join(_usage(o) for o in command.all_options)]
    width = max(len(_head(o)) for o in command.all_options) + 3
    for option in sorted(command.all_options, key=lambda o: (o.short or o.long).lower()):
        marks = [m for m, said in (("required", option.required),) if said]
        if option.default is not None:
            marks.append(f"default: {option.default}")
        tail = f" ({', '.join(marks)})" if marks else ""
        lines.append(f" {_head(option):<{width}}{option.help}{tail}")
    for group in command.exactly_one:
        lines.append(f" exactly one of {', '.join(f'--{name}' for name in group)} is required")
    return lines


def _head(option: Option) -> str:
    return option.names if option.flag else f"{option.names} <arg>"


def _usage(option: Option) -> str:
    text = f"-{option.short}" if option.short else f"--{option.long}"
    if not option.flag:
        text += " <arg>"
    return text if option.required else f"[{text}]"
