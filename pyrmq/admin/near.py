"""Names that may have been meant; light, as the help of commands imports it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def near(name: str, known: Iterable[str], most: int = 3) -> str:
    """`: did you mean …?`, or `: there are …`, for the end of an error's text."""
    names = sorted(known)
    if alike := difflib.get_close_matches(name, names, most):
        return f": did you mean {' or '.join(alike)}?"
    if not names:
        return ": there is none"
    more = ", …" if len(names) > 8 else ""
    return f": there are {', '.join(names[:8])}{more}"
