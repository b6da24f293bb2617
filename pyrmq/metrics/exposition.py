"""Answers scrapes: one page for all who ask at about the same time.

Making a page costs time of the event loop. So a page is given again for a moment, and for as much
longer as it was dear: many scrapes cost little more than one.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence

import trio

from pyrmq.http.messages import Reply, Request
from pyrmq.metrics.families import Family, counter, gauge
from pyrmq.metrics.page import Page, accepted

FRESH = 1.0
"""Seconds for which a page is given again, at least."""
SHARE = 20
"""And this many times as long as it took to make,"""
MOST_FRESH = 5.0
"""but for no more seconds than these."""

Source = Callable[[Page], Awaitable[None]]
"""Adds rows to a page; it gives way to other tasks every millisecond."""

PAGES = counter("pyrmq_metrics_pages_total", "Pages of metrics made since the start.")
SECONDS = gauge(
    "pyrmq_metrics_page_seconds",
    "Seconds that the page before this one took to make, with pauses for other tasks.",
)
FAMILIES: tuple[Family, ...] = (PAGES, SECONDS)


class Exposition:
    """The handler of /metrics. `common`: labels of all rows, at least one; `sources`: who fills the
    page, in this order."""

    def __init__(self, common: Mapping[str, object], sources: Sequence[Source]) -> None:
        self._common = dict(common)
        self._sources = tuple(sources)
        self._lock = trio.Lock()
        self._page: Page | None = None
        self._until = 0.0
        self._pages = 0
        self._took = 0.0

    async def __call__(self, request: Request) -> Reply:
        form = accepted(request.headers.get("accept", ""))
        page = await self.page()

        async def chunks() -> AsyncGenerator[bytes, None]:
            for chunk in page.chunks(form):
                yield chunk

        return Reply(200, form.value, chunks())

    async def page(self) -> Page:
        """The page, made anew if the one before is no longer fresh."""
        async with self._lock:
            if self._page is None or trio.current_time() >= self._until:
                self._page = None  # not two at a time in memory
                self._page = await self._made()
            return self._page

    async def _made(self) -> Page:
        begin = time.perf_counter()
        page = Page(self._common)
        self._pages += 1
        page.add(PAGES, self._pages)
        page.add(SECONDS, round(self._took, 6))
        for source in self._sources:
            await source(page)
        self._took = time.perf_counter() - begin
        self._until = trio.current_time() + min(max(FRESH, SHARE * self._took), MOST_FRESH)
        return page
