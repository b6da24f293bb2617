"""What `table watch` serves at /metrics, and how: figures of each table, by its name."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass

import trio

from pyrmq.errors import ConfigError
from pyrmq.http.server import HttpServer, http_listeners
from pyrmq.metrics.exposition import Exposition
from pyrmq.metrics.families import counter, gauge
from pyrmq.metrics.page import Page
from pyrmq.metrics.process import ProcessFigures
from pyrmq.net.address import format_address, parse_address

_LABELS = ("table", "topic")
COMMITS = counter("pyrmq_table_commits_total", "Commits since the start.", *_LABELS)
MESSAGES = counter("pyrmq_table_messages_total", "Messages that the table got.", *_LABELS)
UNFIT = counter(
    "pyrmq_table_unfit_total",
    "Messages whose bodies did not fit: in the table of dead bodies, or left out.",
    *_LABELS,
)
BYTES = counter("pyrmq_table_bytes_total", "Bytes of files that were committed.", *_LABELS)
FAILURES = counter("pyrmq_table_failures_total", "Attempts that failed.", *_LABELS)
FAILING = gauge("pyrmq_table_failing", "1 if the last attempt failed.", *_LABELS)
AGE = gauge(
    "pyrmq_table_caught_up_seconds",
    "Seconds since the table last had all that its topic had; since the start if never.",
    *_LABELS,
)
FAMILIES = (COMMITS, MESSAGES, UNFIT, BYTES, FAILURES, FAILING, AGE)


@dataclass
class Figures:
    """Of one table, since the start of the service. Written by its thread, read by the server's."""

    table: str
    topic: str
    commits: int = 0
    messages: int = 0
    unfit: int = 0
    bytes: int = 0
    failures: int = 0
    failing: bool = False
    caught_up: float = 0.0
    """By time.monotonic."""


class MetricsServer:
    """Serves /metrics in a thread of its own, until the process ends."""

    def __init__(self, address: str, figures: dict[str, Figures]) -> None:
        """ConfigError if the address cannot be listened at."""
        try:
            host, port = parse_address(address, "--metrics")
        except ConfigError as e:
            raise ConfigError(f"{e}: such as 127.0.0.1:9464") from None
        self._figures = figures
        process = ProcessFigures()
        page = Exposition({"service": "table-watch"}, [self._fill, process])
        sockets = http_listeners(host, port, "--metrics")
        self._process = process
        self._server = HttpServer("table watch (HTTP)", sockets, {"/metrics": page})
        self.address = format_address(self._server.address)

    def start(self) -> None:
        threading.Thread(target=trio.run, args=(self._run,), name="metrics", daemon=True).start()

    async def _run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._process.run)
            nursery.start_soon(self._server.run)

    async def _fill(self, page: Page) -> None:
        fill(page, list(self._figures.values()))


def fill(page: Page, every: Iterable[Figures]) -> None:
    """Adds a row for each table to each family."""
    figures = list(every)
    now = time.monotonic()
    for family, value in (
        (COMMITS, lambda f: f.commits),
        (MESSAGES, lambda f: f.messages),
        (UNFIT, lambda f: f.unfit),
        (BYTES, lambda f: f.bytes),
        (FAILURES, lambda f: f.failures),
        (FAILING, lambda f: int(f.failing)),
        (AGE, lambda f: round(now - f.caught_up, 3)),
    ):
        for one in figures:
            page.add(family, value(one), table=one.table, topic=one.topic)
