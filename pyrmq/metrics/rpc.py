"""How long requests take: a source of a page, from what the engine counts.
[RemotingMetricsManager]"""

from __future__ import annotations

from pyrmq.engine import RPC_BOUNDS_US, RpcFigures
from pyrmq.metrics.families import Family, flag, histogram, label_text
from pyrmq.metrics.page import Page
from pyrmq.model.codes import RequestCode, ResponseCode

LATENCY = histogram(
    "rocketmq_rpc_latency",
    "ms from a request to its answer; with long polling also the wait for messages.",
    [bound / 1000 for bound in RPC_BOUNDS_US],
    "protocol_type",
    "request_code",
    "response_code",
    "is_long_polling",
    "result",
)
FAMILIES: tuple[Family, ...] = (LATENCY,)
OTHER = -1
"""The code of the row for all codes that are too many to have rows."""


def request_name(code: int) -> str:
    """As RocketMQ's label has it: the name in lower case."""
    return _name(RequestCode, code)


def _name(codes: type[RequestCode | ResponseCode], code: int) -> str:
    if code == OTHER:
        return "other"
    try:
        return codes(code).name.lower()
    except ValueError:
        return str(code)


class RpcRows:
    """Of one server."""

    def __init__(self, figures: RpcFigures) -> None:
        self._figures = figures

    async def __call__(self, page: Page) -> None:
        rows = page.rows(LATENCY)
        for code, response, long_polling, result, (_, total, _, *counts) in self._figures.rows():
            labels = {
                "protocol_type": "remoting",
                "request_code": request_name(code),
                "response_code": _name(ResponseCode, response),
                "is_long_polling": flag(long_polling),
                "result": result,
            }
            rows.add_histogram(label_text(labels), counts, total / 1000)
