"""Requests that a broker refuses: every broker those of absent features, a slave those that write.

Without a controller, and without a provider of users and access lists, RocketMQ's brokers refuse
the same ones. A slave refuses whatever would write into its log, or into tables that are its
master's. [AdminBrokerProcessor]
"""

from __future__ import annotations

from pyrmq.engine import Command
from pyrmq.errors import ResponseError, ServiceNotAvailableError
from pyrmq.model.codes import RequestCode, ResponseCode
from pyrmq.model.request_kinds import refusal
from pyrmq.net.server.answers import Answer, Processor
from pyrmq.net.server.connection import Connection

AUTH_REQUESTS = range(3001, 3011)
"""AUTH_CREATE_USER to AUTH_LIST_ACL."""
_WRITES = (
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.CONSUMER_SEND_MSG_BACK,
    RequestCode.SEND_REPLY_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE_V2,
    RequestCode.RESUME_CHECK_HALF_MESSAGE,
)
_CHANGES = (
    RequestCode.UPDATE_AND_CREATE_TOPIC,
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
    RequestCode.DELETE_TOPIC_IN_BROKER,
    RequestCode.CLEAN_UNUSED_TOPIC,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
    RequestCode.DELETE_SUBSCRIPTIONGROUP,
)


def _refuse(connection: Connection, command: Command) -> Answer:
    raise ResponseError(refusal(command.code), ResponseCode.SYSTEM_ERROR)


def refused_requests() -> dict[int, Processor]:
    """By request code."""
    return dict.fromkeys((RequestCode.GET_BROKER_EPOCH_CACHE, *AUTH_REQUESTS), _refuse)


def _write(connection: Connection, command: Command) -> Answer:
    """[HookUtils.checkBeforePutMessage]"""
    raise ServiceNotAvailableError(
        "message store is slave mode, so putMessage is forbidden: send to the master"
    )


def _end(connection: Connection, command: Command) -> Answer:
    """[EndTransactionProcessor]"""
    raise ResponseError(
        "message store is slave mode, so end transaction is forbidden: tell the master",
        ResponseCode.SLAVE_NOT_AVAILABLE,
    )


def _change(connection: Connection, command: Command) -> Answer:
    """[AdminBrokerProcessor.validateSlave]"""
    raise ResponseError(
        "topics and subscription groups are changed at the master, not at a slave",
        ResponseCode.SYSTEM_ERROR,
    )


def _reset(connection: Connection, command: Command) -> Answer:
    """[AdminBrokerProcessor.resetOffsetInner]"""
    raise ResponseError(
        "offsets are reset at the master, not at a slave, which follows it",
        ResponseCode.SYSTEM_ERROR,
    )


def slave_refusals() -> dict[int, Processor]:
    """By request code."""
    return {
        **dict.fromkeys(_WRITES, _write),
        **dict.fromkeys(_CHANGES, _change),
        RequestCode.END_TRANSACTION: _end,
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: _reset,
    }
