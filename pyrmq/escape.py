"""Texts of others on a terminal, in a log or in a line of output.

Names, remarks and bodies come from peers and files. Printed as they are they could move the cursor,
set the title of a window, begin a line that looks like one of ours, or turn the reading direction
around: a terminal obeys what it reads.
"""

from __future__ import annotations

import json
import re
from typing import Any

_HIDDEN = re.compile(r"[^\x20-\x7e]+")


def escape(value: object) -> str:
    """The value as one line of printable text: what is not printed as itself becomes an escape as
    in a Python string (`\\x1b`, `\\n`, `\\u202e`).

    That is what str.isprintable says: controls of both sets, line and paragraph separators, blanks
    other than the space, marks of bidirectional text and others without a shape, halves of
    surrogate pairs, and code points without a meaning. Backslashes stay as they are.
    """
    text = str(value)
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode()
        for c in text
    )


def escape_bytes(raw: bytes) -> str:
    """UTF-8 text as `escape` gives it; bytes that are none as `\\xff`."""
    return escape(raw.decode(errors="backslashreplace"))


def json_line(value: Any) -> str:
    """JSON in one line, in which the same characters are escaped as `\\uXXXX`: it means the same,
    and a terminal finds nothing to obey. Other letters than ASCII's stay readable."""
    return _HIDDEN.sub(_json_escapes, json.dumps(value, ensure_ascii=False))


def _json_escapes(found: re.Match[str]) -> str:
    text = found.group()
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)
