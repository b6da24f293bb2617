"""Downloads of bodies: how many there are at a time."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response

from pyrmq.console.pages import messages
from pyrmq.errors import ClientError, NotFoundError


async def body(query: bytes = b"as=stored") -> Response:
    scope = {"type": "http", "query_string": query, "headers": []}
    answer: Response = await messages.body.__wrapped__(Request(scope))  # type: ignore[attr-defined]
    return answer


async def test_downloads_are_bounded_until_they_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    async def admin_of(request: Request) -> None:
        return None

    async def message_of(admin: Any, values: Mapping[str, Any]) -> Any:
        if "gone" in values:
            raise NotFoundError("gone")
        return SimpleNamespace(raw_body=b"body", msg_id="ID")

    monkeypatch.setattr(messages, "admin_of", admin_of)
    monkeypatch.setattr(messages, "message_of", message_of)
    for _ in range(messages.DOWNLOADS + 1):
        with pytest.raises(NotFoundError):
            await body(b"gone=1")
    first, *others = [await body() for _ in range(messages.DOWNLOADS)]
    with pytest.raises(ClientError, match="try again"):
        await body()
    said: list[Any] = []

    async def send(message: Any) -> None:
        said.append(message)

    async def receive() -> Any:
        raise AssertionError("nothing is asked for")

    await first({"type": "http", "method": "GET"}, receive, send)
    assert said[1]["body"] == b"body"
    assert dict(said[0]["headers"])[b"content-disposition"] == b'attachment; filename="ID.bin"'
    others.append(await body())
    for one in others:
        await one({"type": "http", "method": "GET"}, receive, send)
