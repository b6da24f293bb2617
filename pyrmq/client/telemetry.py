"""What an instrumentation is told about clients. Spans and metrics hook in here.

A `Telemetry` that is installed hears of the clients that are made after that. A client without one
has nothing of this module in its way.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import trio

from pyrmq.client.user_functions import in_main_thread
from pyrmq.escape import escape
from pyrmq.model.message import MessageQueue
from pyrmq.model.names import without_namespace
from pyrmq.model.record import ReceivedMessage

if TYPE_CHECKING:
    from pyrmq.client.instance import ClientInstance

log = logging.getLogger(__name__)
R = TypeVar("R")

INNER = ("_INNER_TRACE_PRODUCER-", "CLIENT_INNER_PRODUCER")
"""Groups of producers inside of clients begin with these: nobody is told of them."""


class Work(Enum):
    """What a client does."""

    CREATE = "create"
    """`send_soon` takes a message."""
    SEND = "send"
    REQUEST = "request"
    RECEIVE = "receive"
    PROCESS = "process"
    """A listener or a loop has messages."""
    ACK = "ack"
    CHANGE_INVISIBLE = "change_invisible"
    SEND_BACK = "send_back"
    COMMIT = "commit_offsets"
    """Offsets are written, as the program asked."""
    TRANSACTION = "transaction"
    """Half, local transaction and end together."""
    EXECUTE = "execute"
    END = "end"
    CHECK = "check"


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class ClientInfo:
    """A client. Names are those of users, without a namespace."""

    group: str
    namespace: str
    client_id: str
    consumes: bool
    broadcasting: bool = False
    address_of: Callable[[MessageQueue], str] = lambda queue: ""
    """`host:port` of the broker that has a queue of a result; empty if it is not known."""
    cached: Callable[[], Iterable[tuple[str, int, int]]] = tuple
    """Topic, messages and bytes that wait to be consumed; for any thread."""


@dataclass(slots=True, eq=False)
class Operation:
    """One thing that a client does, from `begin` to `end`."""

    work: Work
    client: ClientInfo
    topic: str
    messages: Sequence[Any]
    """Messages to send, or received ones. `begin` may replace what is sent by copies."""
    batch: bool = False
    """Whether it is a call for many messages."""
    oneway: bool = False
    keys: Sequence[str] = ()
    """Ids of messages that `send_soon` took before, and that are sent now; or the id of one that
    it took."""
    apart: bool = False
    """The code that follows does not belong to it: a loop has the message, or a task of the
    client works."""
    ordering_key: str | None = None
    """The sharding key that a call was given."""
    began: float = 0.0
    """By `trio.current_time()`."""
    seconds: float = 0.0
    """The duration, at its end."""
    result: Any = None
    """What the call returns; for END, EXECUTE and CHECK the outcome of a transaction."""
    error: BaseException | None = None
    failure: str = ""
    """Why messages were not consumed, without an error: FAILED or TIME_OUT."""
    memo: dict[object, Any] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many messages it is about."""
        return len(self.messages) or len(self.keys)


class Telemetry(Protocol):
    """An instrumentation. Its methods are called in the event loop: they must not block. What they
    raise is logged."""

    def opened(self, client: ClientInfo) -> None:
        """A client was made. The client is the owner of `client`; keep no strong reference."""

    def begin(self, operation: Operation) -> None:
        """An operation begins, in the task in which it ends."""

    def end(self, operation: Operation) -> None:
        """It has ended, in the same task unless it is `apart`."""

    def forget(self, operation: Operation) -> None:
        """Nobody saw its messages: it was none."""

    def arrived(self, client: ClientInfo, messages: Sequence[ReceivedMessage], waits: bool) -> None:
        """Messages have come from a broker. `waits`: they wait here until they are consumed."""


_installed: tuple[Telemetry, ...] = ()
_lock = threading.Lock()


def _in_forked_child() -> None:
    global _lock
    _lock = threading.Lock()  # somebody may have had it who is not here


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_forked_child)


def install(telemetry: Telemetry) -> None:
    """Tells it of clients that are made from now on."""
    global _installed
    with _lock:
        if telemetry not in _installed:
            _installed = (*_installed, telemetry)


def remove(telemetry: Telemetry) -> None:
    """Tells it of no more clients."""
    global _installed
    with _lock:
        _installed = tuple(one for one in _installed if one is not telemetry)


class ClientTelemetry:
    """What one client tells. An error of an instrumentation is logged, and costs nothing else."""

    def __init__(self, client: ClientInfo, told: Sequence[Telemetry]) -> None:
        self.client = client
        self._told = told
        for telemetry in told:
            _guarded(telemetry.opened, client)

    def begin(
        self,
        work: Work,
        topic: str,
        messages: Sequence[Any],
        *,
        batch: bool = False,
        oneway: bool = False,
        keys: Sequence[str] = (),
        apart: bool = False,
        since: float | None = None,
        ordering_key: str | None = None,
        result: Any = None,
    ) -> Operation:
        """An operation begins. `since`: it began at that time of trio's clock."""
        began = trio.current_time() if since is None else since
        client = self.client
        operation = Operation(
            work,
            client,
            topic,
            messages,
            batch,
            oneway,
            keys,
            apart,
            ordering_key,
            began,
            result=result,
        )
        for telemetry in self._told:
            _guarded(telemetry.begin, operation)
        return operation

    def end(self, operation: Operation) -> None:
        """It has ended; `result`, `error` and `failure` are set."""
        operation.seconds = trio.current_time() - operation.began
        for telemetry in reversed(self._told):
            _guarded(telemetry.end, operation)

    def forget(self, operation: Operation) -> None:
        """Nobody saw its messages."""
        for telemetry in reversed(self._told):
            _guarded(telemetry.forget, operation)

    def arrived(self, messages: Sequence[ReceivedMessage], *, waits: bool = True) -> None:
        """Messages have come from a broker."""
        if messages:
            for telemetry in self._told:
                _guarded(telemetry.arrived, self.client, messages, waits)

    def received(self, messages: Sequence[ReceivedMessage], since: float) -> None:
        """Messages were handed to who asked for them; nothing is told of an empty answer."""
        if messages:
            self.end(self.begin(Work.RECEIVE, messages[0].topic, messages, batch=True, since=since))

    def during(
        self,
        work: Work,
        topic: str,
        messages: Sequence[Any],
        *,
        batch: bool = False,
        result: Any = None,
    ) -> AbstractContextManager[Operation]:
        """An operation around a block."""
        return self.within(self.begin(work, topic, messages, batch=batch, result=result))

    @contextmanager
    def within(self, operation: Operation) -> Iterator[Operation]:
        """The rest of an operation: it ends with the block, by whose error it has failed."""
        try:
            yield operation
        except BaseException as e:
            operation.error = e
            raise
        finally:
            self.end(operation)


async def watched(
    telemetry: ClientTelemetry | None, work: Work, message: Any, call: Awaitable[R]
) -> R:
    """A call about one message, as an operation if somebody is told."""
    if telemetry is None:
        return await call
    with telemetry.during(work, message.topic, [message]) as operation:
        operation.result = result = await call
        return result


async def settling(
    telemetry: ClientTelemetry | None,
    work: Work,
    messages: Sequence[Any],
    call: Callable[[], Coroutine[Any, Any, None]],
) -> None:
    """Messages are settled by a call of the program. Without a message it is about no topic."""
    if telemetry is None:
        await call()
        return
    topics = {message.topic for message in messages}
    topic = topics.pop() if len(topics) == 1 else ""
    with telemetry.during(work, topic, messages, batch=len(messages) > 1):
        await call()


def _guarded(function: Callable[..., object], *args: object) -> None:
    try:
        function(*args)
    except BaseException as e:
        if not isinstance(e, Exception) and in_main_thread():
            raise
        name = getattr(function, "__qualname__", type(function).__qualname__)
        log.exception("telemetry: %s failed", escape(name))


def producer_telemetry(
    group: str, namespace: str, namespace_v2: str, client: ClientInstance
) -> ClientTelemetry | None:
    """What a producer tells; None if nothing is installed."""
    told = _installed
    if not told or group.startswith(INNER):
        return None

    def address_of(queue: MessageQueue) -> str:
        topic = f"{namespace}%{queue.topic}" if namespace else queue.topic
        route = client.routes.known(topic)
        return (route and route.master_of(queue.broker_name)) or ""

    shown = without_namespace(namespace, group)
    info = ClientInfo(
        shown, namespace or namespace_v2, client.client_id, False, address_of=address_of
    )
    return ClientTelemetry(info, told)


def consumer_telemetry(
    group: str,
    namespace: str,
    namespace_v2: str,
    client: ClientInstance,
    *,
    broadcasting: bool = False,
    cached: Callable[[], Iterable[tuple[str, int, int]]] = tuple,
) -> ClientTelemetry | None:
    """What a consumer tells; None if nothing is installed."""
    told = _installed
    if not told:
        return None
    info = ClientInfo(
        group,
        namespace or namespace_v2,
        client.client_id,
        True,
        broadcasting=broadcasting,
        cached=cached,
    )
    return ClientTelemetry(info, told)
