"""Options of clients by type: one table for type checkers and for the checks when a client is made.

A TypedDict lists the options of a client. `check_types` refuses a value of another type before
anything else happens. Ranges are checked where an option is used. `like` and `with_options_of` are
for constructors that take `**options`: help() and editors show all options.
"""

from __future__ import annotations

import collections.abc
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypedDict, TypeVar, Union, get_args, get_origin, get_type_hints

from pyrmq.client.hooks import SendMessageHook
from pyrmq.errors import ClientError
from pyrmq.model.compression import CompressionType
from pyrmq.net.client.credentials import Credentials
from pyrmq.net.client.tls import Tls

F = TypeVar("F", bound=Callable[..., Any])


class SecurityOptions(TypedDict, total=False):
    """How clients sign and connect."""

    credentials: Credentials | None
    tls: Tls | None


class ProducerOptions(TypedDict, total=False):
    """Options of `Producer`."""

    namesrv: str | None
    credentials: Credentials | None
    tls: Tls | None
    namespace: str
    namespace_v2: str
    send_timeout: float
    attempt_timeout: float | None
    retry_times: int
    retry_codes: Collection[int]
    retry_another_broker_when_not_store_ok: bool
    send_latency_fault: bool
    start_detector: bool
    max_message_size: int
    compress_over: int
    compress_type: CompressionType
    compress_level: int
    max_in_flight: int
    max_in_flight_bytes: int
    auto_batch: bool
    batch_delay: float
    batch_bytes: int
    batch_total_bytes: int
    trace: bool
    trace_topic: str
    hooks: Sequence[SendMessageHook]


class TransactionOptions(TypedDict, total=False):
    """Options that only `TransactionalProducer` has."""

    topics: Iterable[str] | str | None
    check_concurrency: int
    check_queue: int
    execute_threads: int


class TransactionalProducerOptions(ProducerOptions, TransactionOptions, total=False):
    """All options of `TransactionalProducer`."""


class AdminOptions(TypedDict, total=False):
    """Options of `Admin`."""

    namesrv: str
    timeout: float | None
    credentials: Credentials | None
    tls: Tls | None


Kind = tuple[Callable[[object], bool], str]
"""A test of a value's type, and the name of that type for errors."""
_NAMESRV = "one text, 'host:port' or 'host:port;host:port',"
_SECRET = ("credentials", "tls")
"""Options whose values are not shown: somebody may have passed a secret."""
_PLAIN: dict[Any, Kind] = {
    NoneType: (lambda v: v is None, "None"),
    bool: (lambda v: isinstance(v, bool), "True or False"),
    int: (lambda v: isinstance(v, int) and not isinstance(v, bool), "a whole number"),
    float: (
        lambda v: isinstance(v, int | float) and not isinstance(v, bool),
        "a number of seconds",
    ),
    str: (lambda v: isinstance(v, str), "a text (str)"),
    Path: (lambda v: isinstance(v, Path), "a pathlib.Path"),
    Credentials: (lambda v: isinstance(v, Credentials), "a pyrmq.Credentials"),
    Tls: (lambda v: isinstance(v, Tls), "a pyrmq.Tls"),
}


def check_types(options: type, given: Mapping[str, object]) -> None:
    """Raises ClientError for the first option whose type differs from its TypedDict."""
    for name, kinds in _kinds(options).items():
        if name in given and not any(fits(given[name]) for fits, _ in kinds):
            words = [word for _, word in kinds]
            wanted = _NAMESRV if name == "namesrv" else " or ".join(words)
            shown = f"{given[name]!r:.80}" if name not in _SECRET else _kind_of(given[name])
            raise ClientError(f"{name} is {shown}; {wanted} is needed")


def _kind_of(value: object) -> str:
    return f"of the type {type(value).__name__}"


@cache
def _kinds(options: type) -> dict[str, list[Kind]]:
    return {name: list(_kinds_of(hint)) for name, hint in get_type_hints(options).items()}


def _kinds_of(hint: Any) -> Iterable[Kind]:
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        for part in get_args(hint):
            yield from _kinds_of(part)
    elif origin is collections.abc.Callable:
        yield callable, "a function"
    elif origin is not None:
        yield _is_of(origin), "a list" if origin is not collections.abc.Mapping else "a dict"
    elif hint in _PLAIN:
        yield _PLAIN[hint]
    else:
        assert issubclass(hint, Enum), hint
        yield _is_of(hint), f"a pyrmq.{hint.__name__}"


def _is_of(kind: type) -> Callable[[object], bool]:
    """A text is a sequence too, but is not accepted as one."""
    return lambda value: isinstance(value, kind) and not isinstance(value, str | bytes)


def like(client: type) -> Callable[[F], F]:
    """Gives an `__init__` with `**options` the signature that help() and editors show: that of a
    client's, with all of its options; parameters of its own have its own types."""

    def decorate(init: F) -> F:
        own = inspect.signature(init).parameters
        there = inspect.signature(client.__init__)  # type: ignore[misc]
        shown = [own.get(name, parameter) for name, parameter in there.parameters.items()]
        init.__signature__ = there.replace(parameters=shown)  # type: ignore[attr-defined]
        return init

    return decorate


def with_options_of(base: type) -> Callable[[F], F]:
    """The same for an `__init__` whose `**options` are those of a base class, behind its own."""

    def decorate(init: F) -> F:
        own = inspect.signature(init)
        named = [p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD]
        known = {p.name for p in named}
        more = [
            p
            for p in inspect.signature(base.__init__).parameters.values()  # type: ignore[misc]
            if p.name not in known
        ]
        init.__signature__ = own.replace(parameters=[*named, *more])  # type: ignore[attr-defined]
        return init

    return decorate
