"""Sessions of the console: who is logged in, with which token, and for how long."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

from starlette.requests import Request

from pyrmq.console.settings import Role
from pyrmq.net.client.credentials import Credentials

MAX_NOTES = 20
"""Messages that wait for the next page of a session."""


@dataclass(frozen=True, slots=True)
class Note:
    """A message for the user, shown once on the next page. `bad`: something failed."""

    text: str
    bad: bool = False


@dataclass(slots=True)
class Session:
    """One browser that is logged in. `token` is what each of its forms has to send."""

    user: str
    role: Role
    credentials: Credentials | None = None
    leaves: bool = False
    """Whether the user can log out; not without login."""
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    notes: list[Note] = field(default_factory=list)

    def note(self, text: str, *, bad: bool = False) -> None:
        """Keeps a message for the next page."""
        self.notes = [*self.notes[1 - MAX_NOTES :], Note(text, bad)]

    def take_notes(self) -> list[Note]:
        taken, self.notes = self.notes, []
        return taken


def session_of(request: Request) -> Session:
    """The session of a request. Every handler but that of the login has one."""
    session: Session = request.scope["pyrmq.session"]
    return session
