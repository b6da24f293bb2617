"""Texts of others on a terminal."""

from __future__ import annotations


def plain(text: str) -> str:
    """The text with everything escaped that is not printed as itself: what messages and brokers say
    was written by others, and a terminal obeys what it reads."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode()
        for c in text
    )
