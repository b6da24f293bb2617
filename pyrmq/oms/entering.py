"""Checks of the event loop, and opening."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from sniffio import AsyncLibraryNotFoundError, current_async_library

from pyrmq.errors import ClientError
from pyrmq.net.tasks import Tasks


def check_entering() -> None:
    """Raises ClientError in an event loop that is not trio's."""
    try:
        library = current_async_library()
    except AsyncLibraryNotFoundError:
        return
    if library != "trio":
        raise ClientError(
            f"pyrmq.oms runs on trio, not on {library}: use pyrmq.oms.aio, which has the same "
            "names, or pyrmq.oms.sync in threads"
        )


async def enter(client: AbstractAsyncContextManager[object], tasks: Tasks) -> None:
    """Opens a client and then its tasks; if the tasks fail, it closes the client."""
    check_entering()
    await client.__aenter__()
    try:
        await tasks.__aenter__()
    except BaseException as e:
        await client.__aexit__(type(e), e, e.__traceback__)
        raise
