"""What became of one request to several servers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pyrmq.errors import PyrmqError

R = TypeVar("R")


def problem(target: str, error: BaseException | None) -> str:
    """A server, and what failed there; the server is not named twice."""
    text = str(error)
    return text if target in text else f"{target}: {text}"


@dataclass(frozen=True, slots=True)
class Outcome(Generic[R]):
    """What one server did: `value`, or `error` if it failed."""

    target: str
    """`host:port` of the server."""
    value: R | None = None
    error: PyrmqError | None = None
    name: str = ""
    """The broker's name, where it is known."""

    @property
    def ok(self) -> bool:
        return self.error is None

    @property
    def problem(self) -> str:
        """What failed, and where."""
        return problem(self.target, self.error)


class Outcomes(list[Outcome[R]]):
    """What each of several servers did, in the order in which they were named."""

    @property
    def done(self) -> list[Outcome[R]]:
        return [o for o in self if o.error is None]

    @property
    def failed(self) -> list[Outcome[R]]:
        return [o for o in self if o.error is not None]

    @property
    def values(self) -> list[R]:
        """What those gave that did not fail."""
        return [o.value for o in self if o.error is None]  # type: ignore[misc]

    def check(self) -> Outcomes[R]:
        """Itself, if at least one server did it, or none was asked. The first error otherwise."""
        if self.failed and not self.done:
            error = self.failed[0].error
            assert error is not None
            raise error
        return self

    def check_all(self) -> Outcomes[R]:
        """Itself, if every server did it. The first error otherwise."""
        for outcome in self.failed:
            assert outcome.error is not None
            raise outcome.error
        return self


class Partial(list[R]):
    """What the servers gave that answered. `failed`: those that did not; what they have is missing
    here."""

    def __init__(self, found: Iterable[R] = (), failed: Iterable[Outcome[Any]] = ()) -> None:
        super().__init__(found)
        self.failed: list[Outcome[Any]] = list(failed)


def merged(parts: Iterable[Outcomes[R]]) -> Outcomes[R]:
    """Several of them as one."""
    return Outcomes(o for part in parts for o in part)
