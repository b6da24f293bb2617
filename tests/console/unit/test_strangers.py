"""Which refusals of brokers end a session."""

from __future__ import annotations

import pytest

from pyrmq.auth.guard import UNKNOWN, UNSIGNED
from pyrmq.auth.plain.access import UNPROVEN, AccessDeniedError
from pyrmq.console.app import _is_stranger
from pyrmq.errors import NoPermissionError, ResponseError


@pytest.mark.parametrize(
    "error",
    [
        NoPermissionError(UNKNOWN),
        NoPermissionError(UNSIGNED),
        NoPermissionError("check signature failed."),
        ResponseError(str(AccessDeniedError(UNPROVEN)), 1),
        ResponseError(
            "AclException: Check signature failed for accessKey=ann, "
            "org.apache.rocketmq.acl.plain.PlainPermissionManager.validate(…)", 1,
        ),
    ],
)  # fmt: skip
def test_a_key_that_is_not_accepted(error: ResponseError) -> None:
    assert _is_stranger(error)


@pytest.mark.parametrize(
    "error",
    [
        NoPermissionError("User:ann has no right to Get Topic:signature"),
        NoPermissionError("User:ann has no right to Sub Group:authentication_failed"),
        ResponseError("No topic route info for the topic: check-signature-failed", 17),
        ResponseError("authentication failed", 1),
    ],
)
def test_a_name_logs_nobody_out(error: ResponseError) -> None:
    assert not _is_stranger(error)
