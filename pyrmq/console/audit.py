"""The audit: a line in the log for each change and each login, with who, from where and how it
ended."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from starlette.requests import Request

from pyrmq.console.sessions import Session
from pyrmq.escape import escape

log = logging.getLogger("pyrmq.audit.console")
LONGEST = 200
"""Longest value in a line."""
LONGEST_OUTCOME = 1000
"""The same of how it ended, which may repeat what was sent."""


def line(request: Request, action: str, about: Mapping[str, str], outcome: str) -> None:
    """Writes a line."""
    session: Session | None = request.scope.get("pyrmq_session")
    user = session.user if session else ""
    client = request.client.host if request.client else ""
    facts = {"user": user, "from": client, "action": action, **about}
    said = " ".join(f"{key}={_value(value)}" for key, value in facts.items())
    log.info("%s: %s", escape(said), escape(outcome[:LONGEST_OUTCOME]))


def _value(value: str) -> str:
    """One word: blanks and quotes cannot make it look like several facts."""
    shown = escape(value[:LONGEST])
    return shown if shown and not set(shown) & set(" =\"'\\") else repr(shown)
