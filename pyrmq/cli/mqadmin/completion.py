"""Words that a shell may complete a command line of mqadmin with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from click.shell_completion import CompletionItem

from pyrmq.cli.mqadmin.options import Command, Option
from pyrmq.cli.mqadmin.table import COMMANDS

FILES = {"file", "filename", "mapFile", "configPath", "exportFile", "path"}
FOLDERS = {"filePath", "bodyPath"}
TRUTHS = {"true", "false"}


def completions(words: Sequence[str], incomplete: str) -> list[CompletionItem]:
    """What may stand where `incomplete` stands, behind `words`: commands, options, values."""
    if not words:
        names = {"help": "List the commands, or the options of one.", **_lines()}
        return [CompletionItem(n, help=t) for n, t in names.items() if _begins(n, incomplete)]
    if words[0].lower() == "help":
        rest = _lines() if len(words) == 1 else {}
        return [CompletionItem(n, help=t) for n, t in rest.items() if _begins(n, incomplete)]
    from pyrmq.cli.mqadmin.run import find

    command = find(words[0])
    if command is None:
        return []
    option = _waiting(command, words)
    if option is not None:
        return list(_values(option, incomplete))
    return list(_options(command, words, incomplete))


def _begins(name: str, incomplete: str) -> bool:
    return name.lower().startswith(incomplete.lower())


def _lines() -> dict[str, str]:
    return {name: line for name, (_, line) in COMMANDS.items()}


def _waiting(command: Command, words: Sequence[str]) -> Option | None:
    """The option of the last word, if it wants a value."""
    last = words[-1]
    if len(words) < 2 or not last.startswith("-"):
        return None
    for option in command.all_options:
        if not option.flag and last in (f"-{option.short}", f"--{option.long}"):
            return option
    return None


def _values(option: Option, incomplete: str) -> Iterator[CompletionItem]:
    if option.long in FILES:
        yield CompletionItem(incomplete, type="file")
    elif option.long in FOLDERS:
        yield CompletionItem(incomplete, type="dir")
    elif option.default in TRUTHS:
        yield from (CompletionItem(v) for v in sorted(TRUTHS) if v.startswith(incomplete))


def _options(command: Command, words: Sequence[str], incomplete: str) -> Iterator[CompletionItem]:
    """The options that were not given, by their long names; by the short ones for a single dash."""
    given = {word.partition("=")[0] for word in words[1:]}
    for option in command.all_options:
        if given & {f"-{option.short}", f"--{option.long}"}:
            continue
        for name in (f"--{option.long}", f"-{option.short}" if option.short else ""):
            short = name[:2] != "--"
            if name and name.startswith(incomplete) and (not short or incomplete == "-"):
                yield CompletionItem(name, help=option.help)
