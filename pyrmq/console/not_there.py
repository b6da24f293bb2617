"""What a page is about does not exist."""

from __future__ import annotations

from pyrmq.errors import ClientError

TITLE = "Not there"


class NotThereError(ClientError):
    """The answer is a page with 404, `title` and the text; none asks again by itself after it."""

    def __init__(self, text: str, title: str = TITLE) -> None:
        super().__init__(text)
        self.title = title
