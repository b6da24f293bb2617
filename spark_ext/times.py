"""Times as options take them: the engine reads them."""

from __future__ import annotations

from pyrmq.engine import scan_option_value


def moment(text: str) -> int:
    """Milliseconds since 1970, of a number of them or of ISO 8601. Without a zone it is UTC.
    Raises ValueError for a number that can only be meant as seconds, micro- or nanoseconds."""
    ms: int = scan_option_value("startingTimestamp", text)
    return ms
