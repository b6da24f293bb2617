"""Results of one request to several servers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pyrmq.errors import PyrmqError

R = TypeVar("R")


def problem(target: str, error: BaseException | None) -> str:
    """A server and its failure, without naming the server twice."""
    text = str(error)
    return text if target in text else f"{target}: {text}"


@dataclass(frozen=True, slots=True)
class Outcome(Generic[R]):
    """The result of one server: `value`, or `error` if it failed."""

    target: str
    """`host:port` of the server."""
    value: R | None = None
    error: PyrmqError | None = None
    name: str = ""
    """The broker's name, if known."""

    @property
    def ok(self) -> bool:
        return self.error is None

    @property
    def problem(self) -> str:
        """The failure, and where it happened."""
        return problem(self.target, self.error)


class Outcomes(list[Outcome[R]]):
    """The results of several servers, in the order in which they were named."""

    @property
    def done(self) -> list[Outcome[R]]:
        return [o for o in self if o.error is None]

    @property
    def failed(self) -> list[Outcome[R]]:
        return [o for o in self if o.error is not None]

    @property
    def values(self) -> list[R]:
        """The values of the servers that did not fail."""
        return [o.value for o in self if o.error is None]  # type: ignore[misc]

    def check(self) -> Outcomes[R]:
        """Returns itself if at least one server succeeded, or none was asked. Raises the first
        error otherwise."""
        if self.failed and not self.done:
            error = self.failed[0].error
            assert error is not None
            raise error
        return self

    def check_all(self) -> Outcomes[R]:
        """Returns itself if every server succeeded. Raises the first error otherwise."""
        for outcome in self.failed:
            assert outcome.error is not None
            raise outcome.error
        return self


class Partial(list[R]):
    """The values of the servers that answered. `failed`: the others, whose values are missing."""

    def __init__(self, found: Iterable[R] = (), failed: Iterable[Outcome[Any]] = ()) -> None:
        super().__init__(found)
        self.failed: list[Outcome[Any]] = list(failed)


def merged(parts: Iterable[Outcomes[R]]) -> Outcomes[R]:
    """Several of them in one."""
    return Outcomes(o for part in parts for o in part)
