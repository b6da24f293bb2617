"""What RocketMQ's brokers refuse too, as they are configured by default: without a controller, and
without a provider of users and access lists. [AdminBrokerProcessor]"""

from __future__ import annotations

from pyrmq.engine import Command
from pyrmq.errors import ResponseError
from pyrmq.model.absent_requests import refusal
from pyrmq.model.codes import RequestCode, ResponseCode
from pyrmq.net.server.answers import Answer, Processor
from pyrmq.net.server.connection import Connection

AUTH_REQUESTS = range(3001, 3011)
"""AUTH_CREATE_USER to AUTH_LIST_ACL."""


def _refuse(connection: Connection, command: Command) -> Answer:
    raise ResponseError(refusal(command.code), ResponseCode.SYSTEM_ERROR)


def refused_requests() -> dict[int, Processor]:
    """By request code."""
    return dict.fromkeys((RequestCode.GET_BROKER_EPOCH_CACHE, *AUTH_REQUESTS), _refuse)
