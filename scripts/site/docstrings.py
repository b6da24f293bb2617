"""Docstrings as Markdown: a paragraph of lines `name: what it means` is a list.

mkdocstrings loads it (mkdocs.yml, `extensions` of the Python handler).
"""

from __future__ import annotations

import re

import griffe

ARGUMENT = re.compile(r"^((?:\w+|\*{1,2}\w+)(?:, \w+)*): (?=\S)", re.MULTILINE)


def listed(text: str) -> str:
    """Each paragraph that begins with an argument as a list of arguments."""
    parts = []
    for part in text.split("\n\n"):
        if ARGUMENT.match(part) and "`" not in part.partition(":")[0]:
            items = re.split(r"\n(?=(?:\w+)(?:, \w+)*: )", part)
            part = "\n".join(_item(item) for item in items)
        parts.append(part)
    return "\n\n".join(parts)


def _item(text: str) -> str:
    name, _, meaning = text.partition(": ")
    return f"- **{name}**: " + meaning.replace("\n", "\n    ")


class Arguments(griffe.Extension):
    """Changes the docstrings of all that griffe reads."""

    def on_object(self, *, obj: griffe.Object, **kwargs: object) -> None:
        if obj.docstring is not None:
            obj.docstring.value = listed(obj.docstring.value)
