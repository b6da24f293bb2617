"""Requests and replies of the HTTP server, and the handlers between them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field

TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Request:
    """One request. `path` has no query; names of headers are in lower case."""

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reply:
    """What a handler answers. `chunks`: the body, or an async generator of its parts, which the
    server closes."""

    status: int
    content_type: str
    chunks: bytes | AsyncGenerator[bytes, None]
    headers: tuple[tuple[str, str], ...] = ()


Handler = Callable[[Request], Awaitable[Reply]]


def text(status: int, body: str, *headers: tuple[str, str]) -> Reply:
    """A reply of plain text."""
    return Reply(status, TEXT, body.encode(), headers)
