"""The audit log: the logger `pyrmq.audit`, one line for each change and for refusals.

A line says who, from where, what, and for changes what was before and is after. No line has a
password. Refusals are bounded: those that are left out are counted in the next line.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import trio

from pyrmq.auth.model import Acl, User
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.codes import request_text
from pyrmq.net import fastjson

log = logging.getLogger("pyrmq.audit")

REFUSALS = 20
"""Lines about refusals in REFUSAL_SECONDS."""
REFUSAL_SECONDS = 10.0
MAX_SHOWN = 512
"""Characters of a name or a list in a line."""
NOTHING = "-"


@dataclass(frozen=True, slots=True)
class Asker:
    """Who makes a request: a user, or nobody that signs."""

    name: str | None
    peer: str
    is_super: bool

    def __str__(self) -> str:
        return f"{self.name or NOTHING} at {self.peer}"


def shown_user(user: User | None) -> str:
    if user is None:
        return NOTHING
    return f"type={user.type.value},status={user.status.value}"


def shown_acl(acl: Acl | None) -> str:
    if acl is None or acl.is_empty:
        return NOTHING
    text = fastjson.dumps(acl.to_json()["policies"]).decode(errors="replace")
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}... ({len(text)} characters)"


def changed(asker: Asker, what: str, subject: str, before: str, after: str) -> None:
    """One line about a change that was made."""
    log.info(
        "%s: %s %s: before %s, after %s",
        escape(asker),
        what,
        escape(subject[:MAX_SHOWN]),
        escape(before),
        escape(after),
        extra=about(user=asker.name, connection=asker.peer, key=subject),
    )


def not_changed(asker: Asker, what: str, subject: str, why: object) -> None:
    """One line about a change that could not be made."""
    log.warning(
        "%s: %s %s: not changed: %s",
        escape(asker),
        what,
        escape(subject[:MAX_SHOWN]),
        escape(why),
        extra=about(user=asker.name, connection=asker.peer, key=subject),
    )


class Refusals:
    """Lines about requests that were refused. A clock of trio bounds them."""

    def __init__(self) -> None:
        self.count = 0
        """All of them."""
        self.unanswered = 0
        """Those that were one-way: their sender gets no answer."""
        self._until = -1.0
        self._lines = 0
        self._left_out = 0

    def refused(self, name: str | None, peer: str, code: int, why: str, *, oneway: bool) -> None:
        self.count += 1
        self.unanswered += oneway
        now = trio.current_time()
        if now >= self._until:
            self._until, self._lines = now + REFUSAL_SECONDS, 0
        self._lines += 1
        if self._lines > REFUSALS:
            self._left_out += 1
            return
        more = f"; {self._left_out} more were refused before" if self._left_out else ""
        self._left_out = 0
        asker = Asker(name and name[:MAX_SHOWN], peer, False)
        log.warning(
            "%s: %s refused: %s%s",
            escape(asker),
            escape(request_text(code)),
            escape(why[:MAX_SHOWN]),
            more,
            extra=about(user=asker.name, connection=peer, request=code),
        )
