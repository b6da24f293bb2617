"""Requests that are signed, as clients sign them, and sessions that verify that.

Written from the protocol's description (remoting sheet, section 6.3), without pyrmq's code.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import replace

from pyrmq.engine import Session
from tests.support.wire import Command, FrameReader, encode

NOW = 1_700_000_000_000
SECRETS = {"alice": "alices-secret", "bob": "bobs-secret"}


def signature(ext: Mapping[str, str], body: bytes, secret: str) -> str:
    """Of the values of all fields but the signature itself, in the order of their names in UTF-16,
    and the body."""
    names = sorted(ext.keys() - {"Signature"}, key=lambda name: name.encode("utf-16-be"))
    text = "".join(ext[name] for name in names).encode()
    digest = hmac.new(secret.encode(), text + body, hashlib.sha1).digest()
    return base64.b64encode(digest).decode()


def sign(command: Command, who: str = "alice", secret: str | None = None) -> Command:
    """The command with an access key and its signature."""
    ext = {**command.ext, "AccessKey": who}
    proof = signature(ext, command.body, secret or SECRETS.get(who, "no-secret"))
    return replace(command, ext={**ext, "Signature": proof})


def feed(session: Session, *commands: Command) -> list[Command]:
    """What the session answers by itself to requests that arrive together."""
    data = b"".join(encode(command) for command in commands)
    return FrameReader().feed(session.feed_bytes(data, NOW) or b"")


def subjects(session: Session) -> list[str | None]:
    """Of the commands that wait."""
    found = []
    while (command := session.next_command()) is not None:
        found.append(command.subject)
    return found


def subject_of(session: Session, command: Command) -> str | None:
    """Who has signed a request that the session does not answer."""
    assert feed(session, command) == []
    (found,) = subjects(session)
    return found
