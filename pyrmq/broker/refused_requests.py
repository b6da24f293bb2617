"""What RocketMQ's brokers refuse too, as they are configured by default: without a controller, and
without a provider of users and access lists. [AdminBrokerProcessor]"""

from __future__ import annotations

from pyrmq.engine import Command
from pyrmq.errors import ResponseError
from pyrmq.model.absent_requests import AUTH, CONTROLLER
from pyrmq.model.codes import RequestCode, ResponseCode
from pyrmq.net.answers import Answer, Processor
from pyrmq.net.connection import Connection

AUTH_REQUESTS = range(3001, 3011)
"""AUTH_CREATE_USER to AUTH_LIST_ACL."""


def _epochs(connection: Connection, command: Command) -> Answer:
    raise ResponseError(f"this broker has no epochs: {CONTROLLER}", ResponseCode.SYSTEM_ERROR)


def _auth(connection: Connection, command: Command) -> Answer:
    raise ResponseError(AUTH, ResponseCode.SYSTEM_ERROR)


def refused_requests() -> dict[int, Processor]:
    """By request code."""
    return {RequestCode.GET_BROKER_EPOCH_CACHE: _epochs, **dict.fromkeys(AUTH_REQUESTS, _auth)}
