"""Which failures are worth another try (`pyrmq.net.backoff`: how often, and after which pause).

What is asked may be asked again after errors that say so (`PyrmqError.retriable`). What is sent is
sent again after more than that, as another broker may take it; then a message may be stored twice.
[DefaultMQProducerImpl.sendDefaultImpl]
"""

from __future__ import annotations

from collections.abc import Container
from enum import Enum

from pyrmq.errors import PyrmqError, ResponseError
from pyrmq.model.codes import ResponseCode

RETRY_CODES = frozenset({1, 2, 14, 16, 17, 204, 205, 1500})
"""Answers to a send after which another broker may do better.
[DefaultMQProducer.retryResponseCodes]"""
NOT_STORE_OK = frozenset(
    {
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
    }
)
"""Answers to a send that was stored, but not as safely as the broker is set up to."""


class SendVerdict(Enum):
    """What the code of an answer to a send means."""

    STORED = "stored"
    NOT_STORE_OK = "stored, but not as safely as the broker is set up to"
    RETRY = "not stored; another try may do better"
    REFUSED = "not stored; another try would be refused as well"


def send_verdict(code: int) -> SendVerdict:
    if code == ResponseCode.SUCCESS:
        return SendVerdict.STORED
    if code in NOT_STORE_OK:
        return SendVerdict.NOT_STORE_OK
    return SendVerdict.RETRY if code in RETRY_CODES else SendVerdict.REFUSED


def may_send_again(error: PyrmqError, codes: Container[int | None] = RETRY_CODES) -> bool:
    """Whether a send that failed is tried again: unless a broker refused it for good, with a code
    that is none of `codes`."""
    return not isinstance(error, ResponseError) or error.code in codes


def may_request_again(error: PyrmqError) -> bool:
    """Whether a question that failed is asked again."""
    return error.retriable
