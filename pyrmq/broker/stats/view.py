"""VIEW_BROKER_STATS_DATA: one statistic over its windows. [AdminBrokerProcessor]"""

from __future__ import annotations

from pyrmq.broker.requests import fields
from pyrmq.broker.stats.broker_stats import BrokerStats
from pyrmq.broker.stats.items import DAY, HOUR, MINUTE
from pyrmq.engine import Command
from pyrmq.errors import ResponseError
from pyrmq.model.codes import ResponseCode
from pyrmq.net import fastjson
from pyrmq.net.command import Response
from pyrmq.net.server.connection import Connection

WINDOWS = {"statsDay": DAY, "statsHour": HOUR, "statsMinute": MINUTE}


class StatsProcessor:
    def __init__(self, stats: BrokerStats) -> None:
        self._stats = stats

    def __call__(self, connection: Connection, command: Command) -> Response:
        name, key = fields.text(command, "statsName"), fields.text(command, "statsKey")
        if not self._stats.has(name, key):
            raise ResponseError(
                f"The stats <{name[:64]}> <{key[:511]}> not exist", ResponseCode.SYSTEM_ERROR
            )
        body = {
            field: self._stats.figures(name, key, window).to_json()
            for field, window in WINDOWS.items()
        }
        return Response(body=fastjson.dumps(body))
