"""Where these clients run."""

from __future__ import annotations

from sniffio import AsyncLibraryNotFoundError, current_async_library

from pyrmq.errors import ClientError


def check_entering() -> None:
    """ClientError in an event loop that is not trio's."""
    try:
        library = current_async_library()
    except AsyncLibraryNotFoundError:
        return
    if library != "trio":
        raise ClientError(
            f"pyrmq.oms runs on trio, not on {library}: use pyrmq.oms.sync in threads, or "
            "pyrmq.aio, which has pyrmq's own clients for asyncio"
        )
