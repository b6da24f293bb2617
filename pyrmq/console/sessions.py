"""Sessions of the console: who is logged in, with which token, and for how long.

They are in memory: a restart logs everybody out. A browser has the id of its session in a cookie,
the console only a hash of it. What a page asks for by itself does not lengthen a session.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

import trio
from starlette.requests import Request

from pyrmq.console.settings import Role
from pyrmq.net.client.credentials import Credentials

IDLE = 3600.0
"""Seconds without a click after which a session ends."""
LONGEST = 12 * 3600.0
"""Seconds after which every session ends."""
MAX_SESSIONS = 1000
"""Sessions at a time; beyond it the one that was used longest ago ends."""
MAX_OF_USER = 100
"""The same of one user: whoever logs in again and again ends no sessions of others."""
MAX_NOTES = 20
"""Messages that wait for the next page of a session."""


@dataclass(frozen=True, slots=True)
class Note:
    """A message for the user, shown once on the next page. `bad`: something failed."""

    text: str
    bad: bool = False


@dataclass(slots=True, eq=False)
class Session:
    """One browser that is logged in. `token` is what each of its forms has to send."""

    user: str
    role: Role
    credentials: Credentials | None = None
    proof: str = ""
    """What the password file had of the user at the login; a change of it ends the session."""
    leaves: bool = False
    """Whether the user can log out; not without login."""
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    notes: list[Note] = field(default_factory=list)
    began: float = 0.0
    used: float = 0.0

    def note(self, text: str, *, bad: bool = False) -> None:
        """Keeps a message for the next page."""
        self.notes = [*self.notes[1 - MAX_NOTES :], Note(text, bad)]

    def take_notes(self) -> list[Note]:
        taken, self.notes = self.notes, []
        return taken


class Sessions:
    """`ended` is called after sessions have ended. Times are those of trio's clock."""

    def __init__(self, ended: Callable[[], None] = lambda: None) -> None:
        self._by_hash: OrderedDict[bytes, Session] = OrderedDict()
        self._ended = ended

    def __len__(self) -> int:
        return len(self._by_hash)

    @property
    def credentials(self) -> set[Credentials | None]:
        """Those of all who are logged in."""
        return {session.credentials for session in self._by_hash.values()}

    def begin(self, session: Session) -> str:
        """Takes up a session; returns its id, for a cookie. It is new with every login: an id that
        somebody put into a browser before is of no use."""
        name = secrets.token_urlsafe(32)
        session.began = session.used = trio.current_time()
        self._drop_expired()
        own = [key for key, other in self._by_hash.items() if other.user == session.user]
        for key in own[: max(0, len(own) + 1 - MAX_OF_USER)]:
            del self._by_hash[key]
        while len(self._by_hash) >= MAX_SESSIONS:
            self._by_hash.popitem(last=False)
        self._by_hash[_hash(name)] = session
        self._ended()
        return name

    def find(self, name: str, *, by_itself: bool = False) -> Session | None:
        """The session of an id, if it has not ended. `by_itself`: the page asks, not the user."""
        key = _hash(name)
        session = self._by_hash.get(key)
        if session is None:
            return None
        if _has_expired(session):
            self.end(name)
            return None
        if not by_itself:
            session.used = trio.current_time()
            self._by_hash.move_to_end(key)
        return session

    def end(self, name: str) -> None:
        """Ends a session, if it is there."""
        if self._by_hash.pop(_hash(name), None) is not None:
            self._ended()

    def _drop_expired(self) -> None:
        for key in [k for k, session in self._by_hash.items() if _has_expired(session)]:
            del self._by_hash[key]


def _has_expired(session: Session) -> bool:
    now = trio.current_time()
    return now - session.used > IDLE or now - session.began > LONGEST


def _hash(name: str) -> bytes:
    return hashlib.sha256(name.encode(errors="replace")).digest()


def session_of(request: Request) -> Session:
    """The session of a request. Every handler but that of the login has one."""
    session: Session = request.scope["pyrmq_session"]
    return session
