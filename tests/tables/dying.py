"""A kill inside this process: from some step on nothing has an effect."""

from __future__ import annotations

from typing import Any

import pytest


class Killed(BaseException):
    """Not an Exception: nobody handles it, as nobody handles a SIGKILL."""


def die_at(monkeypatch: pytest.MonkeyPatch, step: int, *places: tuple[Any, str]) -> None:
    """Of the calls of these attributes, counted together from 0, this one and all later ones raise
    Killed."""
    left = step

    def counted(real: Any) -> Any:
        def call(*args: Any, **how: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed
            return real(*args, **how)

        return call

    for owner, name in places:
        monkeypatch.setattr(owner, name, counted(getattr(owner, name)))
