"""Lines that the tests of faults want shown at the end of the run, whatever its verbosity."""

from __future__ import annotations

LINES: list[str] = []


def note(text: str) -> None:
    """Keeps one line for the terminal summary."""
    LINES.append(text)
