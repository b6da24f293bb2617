"""What a page shows, as words; waiting until a page shows it."""

from __future__ import annotations

import html
import re

from tests.console.asgi import Answer, Client
from tests.support.waiting import until as eventually


def words(page: Answer | str) -> str:
    """What a page shows, without tags."""
    text = page if isinstance(page, str) else page.text
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", text)).split())


async def until(browser: Client, path: str, *texts: str) -> str:
    """What a page shows once the texts are on it."""
    shown = ""

    async def look() -> bool:
        nonlocal shown
        shown = words(await browser.get(path))
        return all(text in shown for text in texts)

    await eventually(look, f"{texts} on {path}")
    return shown
