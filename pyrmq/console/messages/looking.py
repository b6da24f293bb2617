"""Handlers of pages that only look: what cannot be is a page that says so."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps

from starlette.requests import Request
from starlette.responses import Response

from pyrmq.console.rendering import page
from pyrmq.errors import (
    ClientError,
    ConfigError,
    ConnectError,
    InvalidParameterError,
    NotFoundError,
    RequestTimeoutError,
    ResponseError,
    ServiceNotAvailableError,
    SubscriptionError,
    SystemBusyError,
    TopicNotExistError,
)

Handler = Callable[[Request], Awaitable[Response]]
_PASSING = (ConnectError, RequestTimeoutError, SystemBusyError, ServiceNotAvailableError)
"""What may be over when the page asks again."""


def looking(handler: Handler) -> Handler:
    """Wraps a handler: what the address asks for wrongly, or what is not there, is an answer of the
    page. A server that does not answer stays an error, after which the page asks again."""

    @wraps(handler)
    async def run(request: Request) -> Response:
        try:
            return await handler(request)
        except _PASSING:
            raise
        except (NotFoundError, TopicNotExistError) as e:
            return page(request, "error.html", 404, title="Not there", text=str(e), again=False)
        except (ClientError, ConfigError, InvalidParameterError, SubscriptionError) as e:
            return page(request, "error.html", 400, title="Not possible", text=str(e), again=False)
        except ResponseError as e:
            text = f"{e.server}: {e}" if e.server else str(e)
            return page(request, "error.html", 502, title="Refused", text=text, again=False)

    return run
