"""Signatures that help() and editors show for an `__init__` with `**options`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


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
