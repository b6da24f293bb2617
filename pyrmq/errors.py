"""Every error that pyrmq raises on purpose, as one tree.

`code` is RocketMQ's response code where there is one, `retriable` says whether trying again can
help, and `hint` says what to do; the text ends with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

NOT_CREATED = "is not created: "
"""In a broker's answer: it makes topics on demand, and says why not this one."""


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

    hint = "docs/store.md says what to do about damage"


class StoreLockedError(PyrmqError):
    """Another process has the store open."""


class ProtocolError(PyrmqError):
    """A peer sent what the remoting protocol does not allow."""


class UndecodableBodyError(ProtocolError):
    """A message's body cannot be decompressed."""

    hint = "raw_body has it as it is stored"


class ResponseError(PyrmqError):
    """A request was refused, with a code other than success.

    `answered` says whether a server did: then `code` is the code of its answer, and the text begins
    with `CODE n:`. Otherwise nobody has answered: a client refused it before it was sent
    (`NotSentError`, which has no code), or this is the code of the process that raises it, a broker
    on its way to an answer for instance.
    """

    answered: bool = False
    server: str = ""
    """Whose answer it is, `host:port`, where that is known."""

    def __init__(self, remark: str = "", code: int | None = None) -> None:
        super().__init__(remark)
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        text = super().__str__()
        return f"CODE {self.code}: {text}" if self.answered else text

    @staticmethod
    def of(code: int, remark: str) -> ResponseError:
        """The error for a server's answer: of the class for its code, `answered`."""
        error = _BY_CODE.get(code, ResponseError)(remark, code)
        error.answered = True
        if code == TopicNotExistError.code and NOT_CREATED in remark:
            error.hint = "create it yourself: the broker says why it does not"
        return error


class SystemBusyError(ResponseError):
    """The broker has too much to do (SYSTEM_BUSY)."""

    code = 2
    retriable = True
    hint = "the broker is overloaded: slow down or try again"


class RequestCodeNotSupportedError(ResponseError):
    """The server knows no such request (REQUEST_CODE_NOT_SUPPORTED)."""

    code = 3


class MessageIllegalError(ResponseError):
    """A message, or an option of a store, breaks a limit (MESSAGE_ILLEGAL)."""

    code: int | None = 13
    hint = "body, properties or topic break a limit of the broker"


class ServiceNotAvailableError(ResponseError):
    """The broker cannot do it now (SERVICE_NOT_AVAILABLE)."""

    code = 14
    retriable = True


class NoPermissionError(ResponseError):
    """Topic, group or broker do not allow it (NO_PERMISSION)."""

    code = 16


class TopicNotExistError(ResponseError):
    """There is no such topic, or no broker of it is there (TOPIC_NOT_EXIST)."""

    code = 17
    hint = "create the topic, or let the broker do it with autoCreateTopicEnable=true"


class QueryNotFoundError(ResponseError):
    """What was looked for is not there (QUERY_NOT_FOUND)."""

    code = 22


class SubscriptionError(ResponseError):
    """SUBSCRIPTION_PARSE_FAILED, _NOT_EXIST, _NOT_LATEST, _GROUP_NOT_EXIST."""

    retriable = True


class InvalidParameterError(ResponseError):
    """A field of a request cannot be meant (INVALID_PARAMETER)."""

    code: int | None = 29


class IllegalOperationError(ResponseError):
    """What was asked is not allowed as things are (ILLEGAL_OPERATION)."""

    code = 604


class TransactionConflictError(ResponseError):
    """The half had been settled the other way. Code 201 (TRANSACTION_SHOULD_ROLLBACK): it was
    rolled back before this COMMIT came, and the message is not delivered. Code 200
    (TRANSACTION_SHOULD_COMMIT): it was committed before this ROLLBACK came.

    Whoever settled it answered a check. Apache RocketMQ's brokers do not answer so.
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
    """The errors that a group holds, however nested; an error that is none stands for itself."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in leaves(inner)]
    return [error]


class ClientError(PyrmqError):
    """The client could not do what was asked."""


class ConnectError(ClientError, ConnectionError):
    """No connection, or it broke while an answer was awaited; what was asked may have happened.

    A ConnectionError (and so an OSError) as well, without `errno`.
    """

    retriable = True

    def __init__(self, *args: object) -> None:
        # Not OSError's, which takes two arguments for errno and text.
        Exception.__init__(self, *args)


class RequestTimeoutError(ClientError, TimeoutError):
    """No answer in time; what was asked may have happened.

    A TimeoutError (and so an OSError) as well, without `errno`.
    """

    retriable = True

    def __init__(self, *args: object) -> None:
        Exception.__init__(self, *args)  # as above


class SendsFailedError(ClientError):
    """Messages of `send_soon` failed, and nobody has asked what became of them. `count`: how many;
    the first one's error is the `__cause__`."""

    hint = "await what send_soon returned to have the error of each"

    def __init__(self, count: int = 0, cause: BaseException | None = None) -> None:
        super().__init__(f"{count} messages of send_soon failed, the first: {cause}")
        self.count = count


class NotSentError(ClientError):
    """The client refused what it was given before anything was sent: no broker has seen it.

    Each class is also that of the answer which a broker would have given, so that one `except`
    serves for both; `code` is None, `answered` False.
    """

    code: int | None = None
    retriable = False
    hint = ""


class BrokerMissingError(ConnectError):
    """A broker that should be there and that no name server knows: what it has is not in an answer
    of the others."""

    retriable = False
    hint = "start it, or say that it is gone for good: pyrmq admin cluster forget NAME"


class NotFoundError(ClientError):
    """None of the brokers has what was looked for."""


class NotSupportedError(ClientError):
    """OpenMessaging has it; RocketMQ, or this client, has not."""


class UnsendableMessageError(NotSentError, MessageIllegalError):
    """A message with a body, a property or a size that cannot be sent."""


class UnusableNameError(NotSentError, InvalidParameterError):
    """A name that no topic, or no group, can have."""


class UnusableExpressionError(NotSentError, SubscriptionError):
    """A tag expression that says nothing."""


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
    """A package that this kind of read needs is not installed."""
