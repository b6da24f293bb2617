"""Health of a server: checks with what is wrong and what to do about it.

A *live* check fails when only a restart helps: the service manager then restarts the process. A
*ready* check fails while the server should get no work; it may become good by itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyrmq.escape import escape


@dataclass(frozen=True, slots=True)
class Problem:
    """A check that failed. `what`: what is wrong. `advice`: what to do."""

    check: str
    what: str
    advice: str


Check = Callable[[], tuple[str, str] | None]
"""What is wrong and what to do; None if all is well. Must not block."""


class Health:
    """The checks of one server, by name. `server` says which one it is."""

    def __init__(self, server: str, live: Mapping[str, Check], ready: Mapping[str, Check]) -> None:
        self.server = server
        self._live = dict(live)
        self._ready = dict(ready)

    def live(self) -> list[Problem]:
        """Problems that only a restart can end."""
        return _problems(self._live)

    def ready(self) -> list[Problem]:
        """Why the server should get no work now."""
        return [*self.live(), *_problems(self._ready)]

    def report(self, *, ready: bool) -> tuple[bool, bytes]:
        """Whether all checks are good, and a JSON document with each of them: those of `ready`, or
        of `live` alone."""
        names = [*self._live, *(self._ready if ready else ())]
        found = {problem.check: problem for problem in (self.ready() if ready else self.live())}
        rows: list[dict[str, object]] = []
        for name in names:
            row: dict[str, object] = {"name": name, "ok": name not in found}
            if name in found:
                row |= {"what": escape(found[name].what), "advice": escape(found[name].advice)}
            rows.append(row)
        body = {"status": "failing" if found else "ok", "server": escape(self.server)}
        text = json.dumps({**body, "checks": rows}, ensure_ascii=False)
        return not found, text.encode() + b"\n"


def _problems(checks: Mapping[str, Check]) -> list[Problem]:
    found = ((name, check()) for name, check in checks.items())
    return [Problem(name, *wrong) for name, wrong in found if wrong is not None]


class Progress:
    """Sees whether a number that must reach another one stands still: `seconds_stuck` is 0 while it
    moves, or has arrived. It compares what it is told, so it must be asked now and then."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._at: int | None = None
        self._wanted = 0
        self._since = 0.0

    def seconds_stuck(self, at: int, wanted: int) -> float:
        """`at` has to reach `wanted`."""
        now = self._clock()
        if self._at != at or at >= self._wanted:
            self._at, self._wanted, self._since = at, wanted, now
        return now - self._since if at < wanted else 0.0
