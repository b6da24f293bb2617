"""All errors that pyrmq raises on purpose, as one tree.

`code` is RocketMQ's response code, if there is one. `retriable` says whether trying again can help.
`hint` says what to do; the text ends with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyrmq.installation import warn_if_replaced

# Here, because every module that a program can begin with imports the errors.
warn_if_replaced()

NOT_CREATED = "is not created: "
"""In a broker's answer: it makes topics on demand, and says why not this one."""
WRONG_TYPE = "TopicMessageType validate failed"
"""In a broker's answer: the message is not of the message.type of its topic."""
TOO_LATE = "should not be bigger than the max delay"
"""In a broker's answer: a timer message is due after the longest delay."""


class PyrmqError(Exception):
    """Base of all errors."""

    code: int | None = None
    retriable: bool = False
    hint: str = ""

    def __str__(self) -> str:
        text = super().__str__()
        return f"{text} ({self.hint})" if self.hint else text


class ConfigError(PyrmqError):
    """A configuration key or value that is unknown or out of range."""


class EngineError(PyrmqError):
    """The native engine failed unexpectedly."""

    hint = "please report this with the log"


class StoreDamagedError(PyrmqError):
    """A store file has invalid content."""

    hint = "docs/store.md says what to do about damage"
    path: str | None = None
    """The file or folder, where a store names one. Reads of segments name it in the text only."""
    configured_size: int | None = None
    """The configured file size, where the size or the name of `path` does not fit it."""
    next_record: int | None = None
    """Physical offset of the next whole record, where a read of segments found one."""


class StoreLockedError(PyrmqError):
    """Another process has the store open."""


class ProtocolError(PyrmqError):
    """A peer sent data that the remoting protocol does not allow."""


class UndecodableBodyError(ProtocolError):
    """The body of a message cannot be decompressed."""

    hint = "raw_body has it as it is stored"


class ResponseError(PyrmqError):
    """A request was refused, with a code other than success.

    If a server refused it, `answered` is true, `code` is the code of its answer, and the text
    begins with `CODE n:`. Otherwise no server has answered: a client refused the call before
    sending (`NotSentError`, which has no code), or the code is that of the process that raises it,
    such as a broker that is preparing its answer.
    """

    answered: bool = False
    server: str = ""
    """`host:port` of the server that answered, if known."""

    def __init__(self, remark: str = "", code: int | None = None) -> None:
        super().__init__(remark)
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        text = super().__str__()
        return f"CODE {self.code}: {text}" if self.answered else text

    @staticmethod
    def of(code: int, remark: str) -> ResponseError:
        """The error for a server's answer, of the class for its code, with `answered`."""
        error = _BY_CODE.get(code, ResponseError)(remark, code)
        error.answered = True
        if code == TopicNotExistError.code and NOT_CREATED in remark:
            error.hint = "create it yourself: the broker says why it does not"
        if code == MessageIllegalError.code and WRONG_TYPE in remark:
            error.hint = "the broker checks types: send to a topic with that message.type, or MIXED"
        if code == MessageIllegalError.code and TOO_LATE in remark:
            error.hint = "the longest delay is the broker's timerMaxDelaySec"
        return error


class SystemBusyError(ResponseError):
    """The broker is overloaded (SYSTEM_BUSY)."""

    code = 2
    retriable = True
    hint = "the broker is overloaded: slow down or try again"


class RequestCodeNotSupportedError(ResponseError):
    """The server does not know this request (REQUEST_CODE_NOT_SUPPORTED)."""

    code = 3


class MessageIllegalError(ResponseError):
    """A message, or an option of a store, exceeds a limit (MESSAGE_ILLEGAL)."""

    code: int | None = 13
    hint = "body, properties or topic break a limit of the broker"


class ServiceNotAvailableError(ResponseError):
    """The broker cannot do it now (SERVICE_NOT_AVAILABLE)."""

    code = 14
    retriable = True


class NoPermissionError(ResponseError):
    """Topic, group or broker do not permit it (NO_PERMISSION)."""

    code = 16


class TopicNotExistError(ResponseError):
    """The topic does not exist, or none of its brokers is running (TOPIC_NOT_EXIST)."""

    code = 17
    hint = "create the topic, or let the broker do it with autoCreateTopicEnable=true"


class QueryNotFoundError(ResponseError):
    """The query found nothing (QUERY_NOT_FOUND)."""

    code = 22


class SubscriptionError(ResponseError):
    """SUBSCRIPTION_PARSE_FAILED, _NOT_EXIST, _NOT_LATEST, _GROUP_NOT_EXIST."""

    retriable = True


class InvalidParameterError(ResponseError):
    """A field of a request is invalid (INVALID_PARAMETER)."""

    code: int | None = 29


class IllegalOperationError(ResponseError):
    """The present state does not allow it (ILLEGAL_OPERATION)."""

    code: int | None = 604


class TransactionConflictError(ResponseError):
    """The half was already settled the other way. Code 201 (TRANSACTION_SHOULD_ROLLBACK): it was
    rolled back before this COMMIT, and the message is not delivered. Code 200
    (TRANSACTION_SHOULD_COMMIT): it was committed before this ROLLBACK.

    Another producer of the group settled it by answering a check. Apache RocketMQ's brokers do not
    answer so.
    """

    code = 201
    hint = (
        "another producer of the group answered a check: all producers of a group need the same "
        "listener and the same database"
    )


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
    200: TransactionConflictError,
    201: TransactionConflictError,
    604: IllegalOperationError,
}


def leaves(error: BaseException) -> list[BaseException]:
    """The errors in a group, at any depth; an error that is not a group is returned itself."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in leaves(inner)]
    return [error]


class ClientError(PyrmqError):
    """The client cannot do what was requested."""


class ConnectError(ClientError, ConnectionError):
    """No connection, or it broke while waiting for an answer; the request may have been executed.

    It is also a ConnectionError (and so an OSError), without `errno`.
    """

    retriable = True

    def __init__(self, *args: object) -> None:
        # Not OSError's, which takes two arguments for errno and text.
        Exception.__init__(self, *args)


class RequestTimeoutError(ClientError, TimeoutError):
    """No answer in time; the request may have been executed.

    It is also a TimeoutError (and so an OSError), without `errno`.
    """

    retriable = True

    def __init__(self, *args: object) -> None:
        Exception.__init__(self, *args)  # as above


class SendsFailedError(ClientError):
    """Messages of `send_soon` failed, and their results were never awaited. `count`: their number;
    `__cause__`: the first one's error."""

    hint = "await what send_soon returned to have the error of each"

    def __init__(self, count: int = 0, cause: BaseException | None = None) -> None:
        super().__init__(f"{count} messages of send_soon failed, the first: {cause}")
        self.count = count


class NotSentError(ClientError):
    """The client refused the call before sending anything.

    Each subclass is also a subclass of the error for the broker's answer, so that one `except`
    covers both. `code` is None, `answered` False.
    """

    code: int | None = None
    retriable = False
    hint = ""


class BrokerMissingError(ConnectError):
    """An expected broker that no name server knows, so the results of the others are incomplete."""

    retriable = False
    hint = "start it, or say that it is gone for good: pyrmq admin cluster forget BROKER"


class NotFoundError(ClientError):
    """None of the brokers has it."""


class InvalidHandleError(ClientError):
    """A popped message can be neither acknowledged nor kept invisible: its invisible time is over,
    its queue does not have it any more, or it was not popped."""

    hint = "receive it again: a message that is not acknowledged in time comes again"


class NotSupportedError(ClientError):
    """A feature of OpenMessaging that RocketMQ, or this client, does not have."""


class UnsendableMessageError(NotSentError, MessageIllegalError):
    """A message whose body, property or size cannot be sent."""


class UnusableNameError(NotSentError, InvalidParameterError):
    """A name that is invalid for a topic or a group."""


class UnusableHandleError(NotSentError, IllegalOperationError):
    """A text that is no recall handle, or one of another topic."""


class UnusableExpressionError(NotSentError, SubscriptionError):
    """A tag expression without a tag."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of `pyrmq.scan` in the text of an error: its name, or with `value` both."""

    name: str
    value: str | bool | None = None

    def __str__(self) -> str:
        return self.name if self.value is None else f"{self.name}={self.value!r}"


Text = str | Sequence[str | Parameter]
"""The text of an error. Parameters are separate elements, so that other interfaces can rename
them."""


class SegmentError(PyrmqError):
    """Segments cannot be read in this way. `hint` says what to do."""

    default_hint: Text = ""

    def __init__(self, text: Text = "", hint: Text | None = None) -> None:
        self._text = text
        self._hint = self.default_hint if hint is None else hint
        super().__init__()
        self.rename(str)

    def rename(self, shown: Callable[[Parameter], str]) -> None:
        """Writes text and hint again, with `shown(parameter)` for each parameter."""
        self.args = (_rendered(self._text, shown),)
        self.hint = _rendered(self._hint, shown)


def _rendered(text: Text, shown: Callable[[Parameter], str]) -> str:
    parts = (text,) if isinstance(text, str) else text
    return _printable("".join(shown(p) if isinstance(p, Parameter) else p for p in parts))


def _printable(text: str) -> str:
    """File names that are not UTF-8 contain surrogates, which cannot be printed."""
    return text.encode("utf-8", "backslashreplace").decode()


class SegmentPathError(SegmentError):
    """The path does not exist, is empty, cannot be read, or is not a log."""


class SegmentLayoutError(SegmentError):
    """The path has a kind of log or queue that is not supported here."""


class SegmentOptionError(SegmentError):
    """A parameter is invalid, or contradicts another one."""


class UnknownTopicError(SegmentOptionError):
    """No store has a topic of this name."""


class OffsetOutOfRangeError(SegmentOptionError):
    """An offset is beyond the end of its queue."""


class DataLossError(SegmentError):
    """Requested records or offsets are deleted."""

    default_hint = (
        Parameter("fail_on_data_loss", False),
        " continues with the earliest record available",
    )


class SegmentDamagedError(StoreDamagedError, SegmentError):
    """A record of a segment is damaged."""

    default_hint = StoreDamagedError.hint


class CheckpointError(SegmentError):
    """The position of a stream does not fit its stores."""

    default_hint = (
        "continue with the stores and ",
        Parameter("broker_names"),
        " of before, or start with a new checkpoint",
    )


class MissingPackageError(SegmentError):
    """This kind of read needs a package that is not installed."""
