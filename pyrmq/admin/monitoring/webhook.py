"""Alarms for an address, by POST of JSON. The standard library's client does it, in a thread."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

import trio

from pyrmq.admin.monitoring.alarms import Event
from pyrmq.admin.monitoring.sink_error import SinkError
from pyrmq.admin.monitoring.sink_settings import WebhookSettings

MAX_ANSWER = 4096
"""Bytes of an answer that are read."""
MAX_THREADS = 4
"""Threads of one webhook: one whose server lets it hang is left alone, until it ends itself."""
TRY_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirected POST would become a GET without the event, and credentials would go along."""

    def redirect_request(self, *_: Any) -> None:
        return None


class WebhookSink:
    """Posts each event. Answers other than 2xx are failures; redirects are not followed."""

    def __init__(self, settings: WebhookSettings, encode: Callable[[Event], bytes]) -> None:
        self.name = settings.name
        self.timeout = settings.timeout
        self.retries = settings.retries
        self._url = settings.url
        self._headers = settings.headers
        self._encode = encode
        self._limiter = trio.CapacityLimiter(MAX_THREADS)

    async def send(self, event: Event) -> None:
        await trio.to_thread.run_sync(
            _post, self._url, self._headers, self._encode(event), self.timeout,
            abandon_on_cancel=True, limiter=self._limiter,
        )  # fmt: skip


def _post(url: str, headers: Mapping[str, str], body: bytes, timeout: float) -> None:
    own = {"Content-Type": "application/json", "User-Agent": "pyrmq-monitor"}
    request = urllib.request.Request(url, body, {**own, **headers}, method="POST")
    try:
        opener = urllib.request.build_opener(_NoRedirect)
        with opener.open(request, timeout=timeout) as answer:
            answer.read(MAX_ANSWER)
    except urllib.error.HTTPError as e:
        with e:
            again = e.code in TRY_AGAIN
            raise SinkError(f"it answered {e.code} {e.reason}", retriable=again) from None
    except (OSError, http.client.HTTPException, ValueError) as e:
        reason = getattr(e, "reason", None) or e
        raise SinkError(f"not reached: {reason}", retriable=isinstance(e, OSError)) from None
