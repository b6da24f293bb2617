"""The error tree: codes, classes by code, groups taken apart."""

from __future__ import annotations

import copy
import pickle

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
    why = str(ResponseError.of(17, "topic[T] not exist, and is not created: there are 7 already"))
    assert "autoCreateTopicEnable" not in why, "it is set already"
    far = (
        "timer message illegal, the delay time should not be bigger than the max delay 1000ms; ..."
    )
    assert "timerMaxDelaySec" in str(ResponseError.of(13, far))
    other = "TopicMessageType validate failed, the expected type is NORMAL, but actual type is FIFO"
    assert "message.type" in str(ResponseError.of(13, other))
    assert "break a limit" in str(ResponseError.of(13, "the message is illegal"))


def test_what_can_be_tried_again() -> None:
    every = [c for c in subclasses(PyrmqError) if c.__module__ == errors.__name__]
    again = {c.__name__ for c in every if c.retriable}
    assert again == {
        "SystemBusyError", "ServiceNotAvailableError", "SubscriptionError", "ConnectError",
        "RequestTimeoutError",
    }  # fmt: skip


def test_branches() -> None:
    assert issubclass(errors.ConnectError, ClientError)
    assert not issubclass(errors.ConnectError, ResponseError)
    assert not issubclass(errors.ProtocolError, ClientError)


@pytest.mark.parametrize(
    ("cls", "builtin"),
    [(errors.ConnectError, ConnectionError), (errors.RequestTimeoutError, TimeoutError)],
)
@pytest.mark.parametrize(
    "args", [(), ("text",), ("a", "b"), (2, "No such file"), (2, "b", "file"), (1, 2, 3, 4, 5, 6)]
)
def test_two_errors_are_builtin_ones_as_well(
    cls: type[PyrmqError], builtin: type[OSError], args: tuple[object, ...]
) -> None:
    """OSError reads its arguments as errno, text and file: text and arguments stay as given."""
    error = cls(*args)
    assert isinstance(error, builtin)
    assert isinstance(error, ClientError)
    for one in (error, pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(one) is cls
        assert one.args == args
        assert str(one) == str(Exception(*args))
        assert repr(one) == f"{cls.__name__}{args!r}".replace(",)", ")")
        assert (one.errno, one.strerror, one.filename) == (None, None, None)  # type: ignore[attr-defined]
        assert (one.code, one.retriable) == (None, True)


def test_only_an_answer_has_its_code_in_the_text() -> None:
    answer = ResponseError.of(13, "too long")
    assert answer.answered
    assert str(answer).startswith("CODE 13: too long (")
    local = errors.MessageIllegalError("too long")
    assert (local.code, local.answered) == (13, False)
    assert str(local).startswith("too long (")


@pytest.mark.parametrize("error", [ResponseError.of(23, "x"), ResponseError.of(999, "y")])
def test_an_answer_survives_pickling(error: ResponseError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.code, again.answered) == (type(error), error.code, True)
    assert str(again) == str(error)


@pytest.mark.parametrize("cls", subclasses(errors.NotSentError))
def test_what_was_not_sent_is_no_answer(cls: type[ResponseError]) -> None:
    error = cls("why")
    assert str(error) == "why"
    assert (error.code, error.answered, error.retriable) == (None, False, False)
    assert isinstance(error, ResponseError), "one except serves for both"
    assert isinstance(error, ClientError)
    assert str(pickle.loads(pickle.dumps(error))) == "why"
