"""Which failures are worth another try, and when."""

from __future__ import annotations

import pytest

from pyrmq.errors import (
    ClientError,
    ConfigError,
    ConnectError,
    ProtocolError,
    PyrmqError,
    RequestTimeoutError,
    ResponseError,
)
from pyrmq.model.retry import (
    SendVerdict,
    may_request_again,
    may_send_again,
    send_verdict,
)

SEND = {
    SendVerdict.STORED: {0},
    SendVerdict.NOT_STORE_OK: {10, 11, 12},
    SendVerdict.RETRY: {1, 2, 14, 16, 17, 204, 205, 1500},
}
ASK_AGAIN = {2, 14, 23, 24, 25, 26}
"""Response codes after which a question is asked again."""


@pytest.mark.parametrize("code", [*range(40), 203, 204, 205, 206, 604, 1499, 1500, -1])
def test_every_code(code: int) -> None:
    verdicts = [v for v, codes in SEND.items() if code in codes] or [SendVerdict.REFUSED]
    assert [send_verdict(code)] == verdicts
    error = ResponseError.of(code, "no")
    assert may_send_again(error) is (verdicts == [SendVerdict.RETRY])
    assert may_request_again(error) is (code in ASK_AGAIN)


@pytest.mark.parametrize(
    ("error", "send", "ask"),
    [
        (ConnectError("x"), True, True),
        (RequestTimeoutError("x"), True, True),
        (ClientError("no broker takes messages of topic T"), True, False),
        (ProtocolError("x"), True, False),
        (ConfigError("x"), True, False),
        (ResponseError("without a code"), False, False),
    ],
)
def test_errors_that_are_no_answer(error: PyrmqError, send: bool, ask: bool) -> None:
    assert (may_send_again(error), may_request_again(error)) == (send, ask)
