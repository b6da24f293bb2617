"""Docstrings and signatures of the faces: those of `pyrmq`'s clients, in the words of plain code or
of asyncio."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
_LISTENER = "an async one runs in this trio loop, a plain one in a thread"
PLAIN = (
    ("an async context manager on trio", "a context manager"),
    ("an async context manager and async iterator", "a context manager and iterator"),
    ("an async context manager", "a context manager"),
    ("any number of tasks", "any number of threads"),
    ("One task polls", "One thread polls"),
    (_LISTENER, "a plain function, which runs in worker threads"),
    ("await pending  # or pending.result(); only", "pending.result()  # only"),
    ("`await pending.result()`, or `await pending`, gives", "`pending.result()` gives"),
    ("async with ", "with "),
    ("async for ", "for "),
    ("async def ", "def "),
    ("`async with`", "`with`"),
    ("await ", ""),
)
"""What stands in the docstrings for trio, and what it is in plain code."""
ASYNCIO = (
    ("an async context manager on trio", "an async context manager on asyncio"),
    (_LISTENER, "an async function, which runs in the asyncio loop"),
)


def in_words(text: str | None, words: tuple[tuple[str, str], ...]) -> str | None:
    """A docstring in other words."""
    for there, here in words if text else ():
        assert text is not None
        text = text.replace(there, here)
    return text


def like(client: type) -> Callable[[F], F]:
    """Gives an `__init__` with `**options` the signature that help() and editors show: that of a
    client's, with all of its options; parameters of its own have its own types."""

    def decorate(init: F) -> F:
        own = inspect.signature(init).parameters
        there = inspect.signature(client.__init__)  # type: ignore[misc]
        shown = [own.get(name, parameter) for name, parameter in there.parameters.items()]
        init.__signature__ = there.replace(parameters=shown)  # type: ignore[attr-defined]
        return init

    return decorate


def with_options_of(base: type) -> Callable[[F], F]:
    """The same for an `__init__` whose `**options` are those of a base class, behind its own."""

    def decorate(init: F) -> F:
        own = inspect.signature(init)
        named = [p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD]
        known = {p.name for p in named}
        more = [
            p
            for p in inspect.signature(base.__init__).parameters.values()  # type: ignore[misc]
            if p.name not in known
        ]
        init.__signature__ = own.replace(parameters=[*named, *more])  # type: ignore[attr-defined]
        return init

    return decorate
