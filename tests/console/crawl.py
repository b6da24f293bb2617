"""Follows the links of the console's pages: whatever a page leads to has to answer."""

from __future__ import annotations

import html
import re
from collections import Counter, deque
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit

from tests.console.asgi import Client
from tests.console.page_rules import broken_rules

_LINK = re.compile(r'(?:href|hx-get)="(/[^"]*)"')
_OTHERS = ("/static/", "/health", "/logout")
LIKE = 3
"""Pages of one kind: paths with the same first part and length, and the same keys of the query."""
TRACES = ("Traceback", "UndefinedError", "jinja2.exceptions")


@dataclass
class Crawled:
    """statuses: by path. kinds: how many pages of each kind."""

    statuses: dict[str, int] = field(default_factory=dict)
    kinds: Counter[tuple[object, ...]] = field(default_factory=Counter)

    @property
    def bad(self) -> dict[str, int]:
        return {path: status for path, status in self.statuses.items() if status >= 400}


def links_of(page: str) -> list[str]:
    """Where a page leads to."""
    return [html.unescape(link) for link in _LINK.findall(page)]


def kind_of(path: str) -> tuple[object, ...]:
    parts = urlsplit(path)
    names = parts.path.strip("/").split("/")
    query = tuple(sorted(key for key, _ in parse_qsl(parts.query)))
    # The last part of a long path is the kind of page: /brokers/NAME/0/disk.
    return names[0], len(names), names[-1] if len(names) > 2 else "", query


async def crawl(client: Client, first: str = "/") -> Crawled:
    """All pages that links lead to, LIKE of each kind at most."""
    found = Crawled()
    waiting, seen = deque([first]), {first}
    while waiting:
        path = waiting.popleft()
        kind = kind_of(path)
        if found.kinds[kind] >= LIKE:
            continue
        found.kinds[kind] += 1
        answer = await client.get(path)
        found.statuses[path] = answer.status
        if 300 <= answer.status < 400:
            links = [answer.headers["location"]]
        elif answer.headers.get("content-type", "").startswith("text/html"):
            assert not any(trace in answer.text for trace in TRACES), f"{path}: {answer.text}"
            assert broken_rules(answer.text) == [], path
            links = links_of(answer.text)
        else:
            links = []
        for link in links:
            if link not in seen and not link.startswith(_OTHERS):
                seen.add(link)
                waiting.append(link)
    return found
