"""Which requests have a body, and how long it may be.

A server forgets the body of any other request, so that nobody makes it keep 16 MiB with a pull that
waits. What a processor takes may be less: then it says so itself.
"""

from __future__ import annotations

from pyrmq.model.codes import RequestCode as Code

MAX_FRAME = 16 << 20
"""Bytes of the longest frame. [NettyDecoder]"""
_SETTINGS = 1 << 20
"""One or several configurations."""

BODIES: dict[int, int] = {
    # messages: maxMessageSize is below
    Code.SEND_MESSAGE: MAX_FRAME,
    Code.SEND_MESSAGE_V2: MAX_FRAME,
    Code.SEND_BATCH_MESSAGE: MAX_FRAME,
    Code.SEND_REPLY_MESSAGE: MAX_FRAME,
    Code.SEND_REPLY_MESSAGE_V2: MAX_FRAME,
    # of clients
    Code.HEART_BEAT: 4 << 20,
    Code.CHECK_CLIENT_CONFIG: 256 << 10,
    Code.LOCK_BATCH_MQ: 8 << 20,
    Code.UNLOCK_BATCH_MQ: 8 << 20,
    # of operators
    Code.UPDATE_AND_CREATE_TOPIC_LIST: 2 * _SETTINGS,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _SETTINGS,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: 2 * _SETTINGS,
    Code.UPDATE_BROKER_CONFIG: _SETTINGS,
    Code.SET_MESSAGE_REQUEST_MODE: _SETTINGS,
    Code.UPDATE_NAMESRV_CONFIG: _SETTINGS,
    # of brokers: some 16 MiB state 76,000 topics
    Code.REGISTER_BROKER: MAX_FRAME,
    Code.QUERY_DATA_VERSION: _SETTINGS,
    Code.REGISTER_TOPIC_IN_NAMESRV: _SETTINGS,
}
"""By request code: bytes of the longest body."""


def most_body(code: int) -> int:
    """Bytes of the longest body that such a request may have; 0: it has none."""
    return BODIES.get(code, 0)
