"""Why a body does not fit its schema, in one line that names the field."""

from __future__ import annotations

from pyrmq.escape import escape

MAX_TEXT = 500
"""Characters of the reason that is kept with a body."""


class Misfit(Exception):
    """A body does not fit. Its text is the reason."""

    def __init__(self, path: tuple[str, ...], why: str) -> None:
        self.path = path
        self.why = why
        where = ".".join(path)
        super().__init__(brief(f"{where}: {why}" if where else why))


def brief(text: object) -> str:
    """Printable, in one line, bounded."""
    found = escape(text)
    return found if len(found) <= MAX_TEXT else found[: MAX_TEXT - 1] + "…"


def value(found: object) -> str:
    """A value in a reason."""
    if isinstance(found, dict):
        return "an object"
    if isinstance(found, list):
        return "a list"
    if found is None:
        return "null"
    if isinstance(found, bool):
        return "true" if found else "false"
    if isinstance(found, int) and abs(found) >= 10**30:
        return "a number of more than 30 digits"
    text = repr(found) if isinstance(found, str) else str(found)
    return text if len(text) <= 60 else text[:59] + "…"
