"""Docstrings of the clients for asyncio and for threads: those for trio, in other words."""

from __future__ import annotations

_LISTENER = "an async one runs in this trio loop, a plain one in a thread"
PLAIN = (
    ("an async context manager on trio", "a context manager"),
    ("an async context manager\n    on trio", "a context manager"),
    ("an async context manager and async iterator", "a context manager and iterator"),
    ("an async context manager", "a context manager"),
    ("any number of tasks", "any number of threads"),
    ("One task polls", "One thread polls"),
    (_LISTENER, "a plain function, which runs in worker threads"),
    ("await pending  # or pending.result(); only", "pending.result()  # only"),
    ("`await pending.result()`, or `await pending`, gives", "`pending.result()` gives"),
    ("producers and consumers for trio", "producers and consumers for blocking code"),
    ("async with ", "with "),
    ("async for ", "for "),
    ("async def ", "def "),
    ("`async with`", "`with`"),
    ("await ", ""),
)
"""What stands in the docstrings for trio, and what stands in those for threads."""
ASYNCIO = (
    ("an async context manager on trio", "an async context manager on asyncio"),
    ("an async context manager\n    on trio", "an async context manager\n    on asyncio"),
    ("producers and consumers for trio", "producers and consumers for asyncio"),
    (_LISTENER, "an async function, which runs in the asyncio loop"),
)


def in_words(text: str | None, words: tuple[tuple[str, str], ...]) -> str | None:
    """A docstring in other words."""
    for there, here in words if text else ():
        assert text is not None
        text = text.replace(there, here)
    return text
