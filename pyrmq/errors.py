"""Every error that pyrmq raises on purpose, as one tree.

`code` is RocketMQ's response code where there is one, `retriable` says whether trying again can
help, and `hint` says what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


class PyrmqError(Exception):
    """Base of all of them."""

    code: int | None = None
    retriable: bool = False
    hint: str = ""

    def __str__(self) -> str:
        text = super().__str__()
        return f"{text} ({self.hint})" if self.hint else text


class ConfigError(PyrmqError):
    """A configuration key or value that is unknown or out of range."""


class EngineError(PyrmqError):
    """The native engine failed in a way that it should not."""

    hint = "please report this with the log"


class StoreDamagedError(PyrmqError):
    """A store file cannot be what it should be."""

    hint = "check the configured file sizes; restore or remove the named file"


class StoreLockedError(PyrmqError):
    """Another process has the store open."""


class ProtocolError(PyrmqError):
    """A peer sent what the remoting protocol does not allow."""


class ResponseError(PyrmqError):
    """A server answered with a code other than success."""

    def __init__(self, remark: str = "", code: int | None = None) -> None:
        super().__init__(remark)
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        return f"CODE {self.code}: {super().__str__()}"

    @staticmethod
    def of(code: int, remark: str) -> ResponseError:
        """The class for a response code."""
        return _BY_CODE.get(code, ResponseError)(remark, code)


class SystemBusyError(ResponseError):
    code = 2
    retriable = True
    hint = "the broker is overloaded: slow down or try again"


class RequestCodeNotSupportedError(ResponseError):
    code = 3


class MessageIllegalError(ResponseError):
    code = 13
    hint = "body, properties or topic break a limit of the broker"


class ServiceNotAvailableError(ResponseError):
    code = 14
    retriable = True


class NoPermissionError(ResponseError):
    code = 16


class TopicNotExistError(ResponseError):
    code = 17
    hint = "create the topic, or let the broker do it with autoCreateTopicEnable=true"


class QueryNotFoundError(ResponseError):
    code = 22


class SubscriptionError(ResponseError):
    """SUBSCRIPTION_PARSE_FAILED, _NOT_EXIST, _NOT_LATEST, _GROUP_NOT_EXIST."""

    retriable = True


class InvalidParameterError(ResponseError):
    code = 29


class IllegalOperationError(ResponseError):
    code = 604


_BY_CODE: dict[int, type[ResponseError]] = {
    2: SystemBusyError,
    3: RequestCodeNotSupportedError,
    13: MessageIllegalError,
    14: ServiceNotAvailableError,
    16: NoPermissionError,
    17: TopicNotExistError,
    22: QueryNotFoundError,
    23: SubscriptionError,
    24: SubscriptionError,
    25: SubscriptionError,
    26: SubscriptionError,
    29: InvalidParameterError,
    604: IllegalOperationError,
}


def leaves(error: BaseException) -> list[BaseException]:
    """The errors that a group holds, however nested; an error that is none stands for itself."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in leaves(inner)]
    return [error]


class ClientError(PyrmqError):
    """The client could not do what was asked."""


class ConnectError(ClientError):
    """No connection, or it broke while an answer was awaited."""

    retriable = True


class RequestTimeoutError(ClientError):
    """No answer in time; what was asked may have happened."""

    retriable = True


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of `pyrmq.scan` in the text of an error: its name, or with `value` both."""

    name: str
    value: str | bool | None = None

    def __str__(self) -> str:
        return self.name if self.value is None else f"{self.name}={self.value!r}"


Text = str | Sequence[str | Parameter]
"""The text of an error. Parameters stand apart, so that other faces can use other names."""


class SegmentError(PyrmqError):
    """Segments cannot be read as asked. `hint` says what to do."""

    default_hint: Text = ""

    def __init__(self, text: Text = "", hint: Text | None = None) -> None:
        self._text = text
        self._hint = self.default_hint if hint is None else hint
        super().__init__()
        self.rename(str)

    def rename(self, shown: Callable[[Parameter], str]) -> None:
        """Writes text and hint anew. `shown` gives the words for a parameter."""
        self.args = (_rendered(self._text, shown),)
        self.hint = _rendered(self._hint, shown)


def _rendered(text: Text, shown: Callable[[Parameter], str]) -> str:
    parts = (text,) if isinstance(text, str) else text
    return _printable("".join(shown(p) if isinstance(p, Parameter) else p for p in parts))


def _printable(text: str) -> str:
    """File names that are not UTF-8 come with half characters, which nothing else takes."""
    return text.encode("utf-8", "backslashreplace").decode()


class SegmentPathError(SegmentError):
    """There is no such place, nothing in it, or what is there cannot be read or is no log."""


class SegmentLayoutError(SegmentError):
    """The place holds a form of log or queue that is not read here."""


class SegmentOptionError(SegmentError):
    """A parameter has a value that it cannot have, or two contradict each other."""


class UnknownTopicError(SegmentOptionError):
    """No store has a topic of this name."""


class OffsetOutOfRangeError(SegmentOptionError):
    """An offset is behind the end of its queue."""


class DataLossError(SegmentError):
    """Records or offsets that are asked for are deleted."""

    default_hint = (
        Parameter("fail_on_data_loss", False),
        " continues with the earliest record available",
    )


class SegmentDamagedError(StoreDamagedError, SegmentError):
    """A record of a segment that is read is damaged."""

    default_hint = StoreDamagedError.hint


class CheckpointError(SegmentError):
    """The position of a stream does not fit the stores that it is to continue with."""

    default_hint = (
        "continue with the stores and ",
        Parameter("broker_names"),
        " of before, or start with a new checkpoint",
    )


class MissingPackageError(SegmentError):
    """A package is not installed that this way of reading needs."""
