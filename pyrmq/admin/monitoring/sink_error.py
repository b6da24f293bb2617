"""What went wrong with a place where alarms go."""

from __future__ import annotations

from pyrmq.errors import ClientError


class SinkError(ClientError):
    """A sink did not take an event."""

    def __init__(self, text: str, *, retriable: bool = False) -> None:
        super().__init__(text)
        self.retriable = retriable
