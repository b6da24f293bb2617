"""Files that browsers save and never show, whatever is in them."""

from __future__ import annotations

from collections.abc import AsyncIterator

from starlette.responses import Response, StreamingResponse

LONGEST = 120
"""Characters of a file's name."""


def download(content: bytes | AsyncIterator[bytes], name: str) -> Response:
    """A file to save. `name`: characters that a file's name should not have are replaced."""
    safe = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "_" for c in name)
    headers = {
        "Content-Disposition": f'attachment; filename="{safe[-LONGEST:]}"',
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
    }
    kind = "application/octet-stream"
    if isinstance(content, bytes):
        return Response(content, media_type=kind, headers=headers)
    return StreamingResponse(content, media_type=kind, headers=headers)
