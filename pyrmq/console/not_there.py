"""Pages of what is not there: an answer, after which no page asks again by itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps

from starlette.requests import Request
from starlette.responses import Response

from pyrmq.console.rendering import page
from pyrmq.errors import ClientError

Handler = Callable[[Request], Awaitable[Response]]


class NotThereError(ClientError):
    """There is no such cluster or broker, and none is missed."""


def of_known(handler: Handler) -> Handler:
    """Wraps a page of one cluster or broker."""

    @wraps(handler)
    async def run(request: Request) -> Response:
        try:
            return await handler(request)
        except NotThereError as e:
            return page(request, "error.html", 404, title="Not there", text=str(e), again=False)

    return run
