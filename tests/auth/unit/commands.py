"""Requests for tests of access control, as a session makes them of frames, and signed ones."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from pyrmq.auth.plain.access import PlainAccess
from pyrmq.engine import Command, Listener, Session
from pyrmq.net.client.credentials import Credentials
from pyrmq.net.server.admin_access import host_of
from tests.support import wire


def command(
    code: int,
    ext: Mapping[str, str] | None = None,
    body: bytes = b"",
    *,
    by: tuple[str, str] | None = None,
    oneway: bool = False,
    language: str = "JAVA",
    version: int = 479,
) -> Command:
    """A request; `by`: access key and secret key of the user that signs it."""
    fields = dict(ext or {})
    if by is not None:
        fields = dict(Credentials(*by).signed(fields, body))
    sent = wire.Command(
        code, fields, body, flag=wire.FLAG_ONEWAY if oneway else 0,
        language=language, version=version,
    )  # fmt: skip
    return taken(sent)


def check(
    access: PlainAccess,
    code: int,
    ext: Mapping[str, str],
    body: bytes,
    host: str,
    verified: str | None = None,
) -> None:
    """Both steps of ACL 1.0. AccessDeniedError. `verified`: who signed, as a session has found."""
    asked: Any = SimpleNamespace(
        code=code, ext=dict(ext), body=body, version=479, language=0, subject=verified
    )
    name = access.identify(asked, host_of(f"[{host}]:1"))
    access.authorize(name, code, ext, body)


def taken(sent: wire.Command) -> Command:
    session = Session(Listener(), b"\x7f\x00\x00\x01", 1)
    assert session.feed_bytes(wire.encode(sent), 0) is None
    found = session.next_command()
    assert found is not None
    return found
