"""How long requests took that Python answers, beside those that the engine answers, and which took
too long. [RemotingMetricsManager]"""

from __future__ import annotations

from pyrmq.engine import Command, RpcFigures
from pyrmq.net.about import about
from pyrmq.net.clock import monotonic_us
from pyrmq.net.command import ReplyTo
from pyrmq.net.server.slow import SlowRequest, SlowRequests

SUCCESS = "success"
ONEWAY = "oneway"
FAILED = "process_request_failed"
NOT_SENT = "write_channel_failed"


class AnswerTimes:
    """Enters each request once, when it is answered."""

    def __init__(self, figures: RpcFigures, slow: SlowRequests) -> None:
        self.figures = figures
        self.slow = slow

    def answered(
        self, peer: str, to: Command | ReplyTo, response_code: int, result: str = SUCCESS
    ) -> None:
        """A request of `peer` was answered, or needs no answer."""
        took = monotonic_us() - to.since_us
        parked = type(to) is ReplyTo and to.long_polling
        self.figures.record(to.code, response_code, parked, result, took)
        if took > self.slow.limit_us and not parked:
            self._note(peer, to, response_code, took)

    def parks(self, peer: str, to: Command | ReplyTo) -> ReplyTo:
        """A request waits for messages from now on: that time does not count. Returns whom its
        answer is for."""
        took = monotonic_us() - to.since_us
        if took > self.slow.limit_us:
            self._note(peer, to, None, took)
        return ReplyTo(to.code, to.codec, to.opaque, to.flag, to.since_us, long_polling=True)

    def _note(self, peer: str, to: Command | ReplyTo, response: int | None, took: int) -> None:
        queued = min(max(to.taken_us - to.since_us, 0), took)
        self.slow.note(
            SlowRequest(
                code=to.code,
                response=response,
                peer=peer,
                queued=queued,
                processing=took - queued,
                size=to.size,
                about=to.about if isinstance(to, ReplyTo) else about(to.code, to.ext),
            )
        )
