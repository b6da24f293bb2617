"""What slaves and operators ask about timers: how far they are, and how many wait.
[AdminBrokerProcessor]"""

from __future__ import annotations

from pyrmq.broker.bounds import Bounded
from pyrmq.broker.timer import TimerService
from pyrmq.engine import Command
from pyrmq.model.timer_figures import FIELD, parse_bounds
from pyrmq.net import fastjson
from pyrmq.net.command import Response
from pyrmq.net.server.answers import Elsewhere
from pyrmq.net.server.connection import Connection

ASKED, WAITING = 1, 64
"""Requests at a time, and how many more may wait."""
LOG_END = "logEnd"
"""Field of an answer that only pyrmq reads: the check point says all about deliveries before this
physical offset."""


class TimerProcessor:
    def __init__(self, timers: TimerService) -> None:
        self._timers = timers
        self._bounded = Bounded("requests about timers", ASKED, WAITING)

    def check_point(self, connection: Connection, command: Command) -> Elsewhere:
        """GET_TIMER_CHECK_POINT: what config/timercheck would have now."""
        return self._bounded.begin(self._check_point())

    async def _check_point(self) -> Response:
        body, end = await self._bounded.run(self._timers.engine.check_point)
        return Response(ext={LOG_END: str(end)}, body=body)

    def metrics(self, connection: Connection, command: Command) -> Elsewhere:
        """GET_TIMER_METRICS: by topic how many messages wait, and when they are due."""
        return self._bounded.begin(self._metrics(parse_bounds(command.ext.get(FIELD))))

    async def _metrics(self, bounds: list[int]) -> Response:
        found = await self._bounded.run(self._timers.metrics, bounds)
        return Response(body=fastjson.dumps(found))
