"""A file with a schema of bodies, as `--body-schema` names it: FILE, or ID=FILE."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from pyrmq.escape import escape
from pyrmq.tables.errors import TableError

MAX_BYTES = 1 << 20
"""Of a file: the table keeps it in its properties."""
MAX_FILES = 50
"""Schemas of one topic."""
_WITH_ID = re.compile(r"(\d{1,10})=(.+)", re.DOTALL)


@dataclass(frozen=True)
class SchemaFile:
    """A schema as it is on the disk."""

    name: str
    content: bytes
    id: int | None = None
    """Its id in a registry, as Confluent's header has it."""

    def text(self) -> str:
        """The content as UTF-8."""
        try:
            return self.content.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise TableError(f"{self.name} is not UTF-8 text") from None


def load(given: str) -> SchemaFile:
    """The file of one `--body-schema`. TableError says what is wrong with it."""
    found = _WITH_ID.fullmatch(given)
    number, path = (int(found[1]), found[2]) if found else (None, given)
    if number is not None and number >= 1 << 32:
        raise TableError(f"--body-schema {escape(given)}: an id has 32 bits")
    name = escape(os.path.basename(path))
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise TableError(
            f"--body-schema {escape(path)} cannot be read: {escape(error.strerror)}"
        ) from None
    if len(content) > MAX_BYTES:
        raise TableError(f"--body-schema {escape(path)} is larger than {MAX_BYTES >> 20} MiB")
    if not content.strip():
        raise TableError(f"--body-schema {escape(path)} is empty")
    return SchemaFile(name, content, number)
