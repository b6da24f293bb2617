"""The error tree: codes, classes by code, groups taken apart."""

from __future__ import annotations

import pytest

from pyrmq import errors
from pyrmq.errors import ClientError, PyrmqError, ResponseError, SubscriptionError, leaves


def subclasses(cls: type) -> list[type]:
    return [c for direct in cls.__subclasses__() for c in (direct, *subclasses(direct))]


def test_leaves() -> None:
    a, b, c = ValueError("a"), KeyError("b"), ResponseError("c", 1)
    group = BaseExceptionGroup("", [a, ExceptionGroup("", [ExceptionGroup("", [b]), c])])
    assert leaves(group) == [a, b, c]
    assert leaves(a) == [a]


def test_leaves_keep_what_must_not_be_swallowed() -> None:
    stop = KeyboardInterrupt()
    assert leaves(BaseExceptionGroup("", [stop, ValueError()]))[0] is stop


@pytest.mark.parametrize("cls", subclasses(ResponseError))
def test_every_class_with_a_code_is_found_by_it(cls: type[ResponseError]) -> None:
    if cls.code is not None:
        found = ResponseError.of(cls.code, "why")
        assert type(found) is cls
        assert found.code == cls.code


@pytest.mark.parametrize("code", [23, 24, 25, 26])
def test_subscription_codes(code: int) -> None:
    error = ResponseError.of(code, "why")
    assert type(error) is SubscriptionError
    assert error.code == code
    assert SubscriptionError.code is None  # of the instance only


@pytest.mark.parametrize("code", [1, 999, -1])
def test_other_codes(code: int) -> None:
    error = ResponseError.of(code, "why")
    assert type(error) is ResponseError
    assert error.code == code
    assert str(error) == f"CODE {code}: why"


def test_text_has_the_hint() -> None:
    assert str(ResponseError.of(17, "no T")).startswith("CODE 17: no T (create the topic")
    assert str(errors.ConfigError("x")) == "x"


def test_what_can_be_tried_again() -> None:
    again = {c.__name__ for c in subclasses(PyrmqError) if c.retriable}
    assert again == {
        "SystemBusyError", "ServiceNotAvailableError", "SubscriptionError", "ConnectError",
        "RequestTimeoutError",
    }  # fmt: skip


def test_branches() -> None:
    assert issubclass(errors.ConnectError, ClientError)
    assert not issubclass(errors.ConnectError, ResponseError)
    assert not issubclass(errors.ProtocolError, ClientError)
