"""Signs requests by the protocol description alone, and sends them.

Text: the values of all ext fields but Signature, in the order of their keys, then the body.
Signature: Base64 of HMAC-SHA1 with the secret key. [AclUtils, AclSigner]
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import replace

from tests.support.client import Client, Closed
from tests.support.wire import Command

NO_ANSWER = 8.0
"""Seconds after which a request counts as one without an answer."""

Keys = tuple[str, str]
"""An access key and a secret key."""


def signature(secret: str, ext: dict[str, str], body: bytes) -> str:
    """The value of the ext field Signature."""
    text = "".join(ext[key] for key in sorted(ext) if key != "Signature").encode() + body
    return base64.b64encode(hmac.new(secret.encode(), text, hashlib.sha1).digest()).decode()


def signed(command: Command, keys: Keys | None) -> Command:
    """The command with credentials; as it is without."""
    if keys is None:
        return command
    ext = {**command.ext, "AccessKey": keys[0]}
    ext["Signature"] = signature(keys[1], ext, command.body)
    return replace(command, ext=ext)


class Session:
    """Requests to one server, each signed as wanted; a new connection where one was lost."""

    def __init__(
        self, address: tuple[str, int], source: str | None = None, patience: float = NO_ANSWER
    ) -> None:
        self._address = address
        self._source = source
        self._patience = patience
        self._client: Client | None = None

    def ask(self, command: Command, keys: Keys | None) -> Command | None:
        """The answer; None if the server closes the connection or does not answer."""
        if self._client is None:
            self._client = Client(self._address, source=self._source)
        try:
            opaque = self._client.post(signed(command, keys))
            answer = self._client.receive(self._patience)
        except (Closed, TimeoutError):
            self.close()
            return None
        assert answer.opaque == opaque, f"answer to {answer.opaque} instead of {opaque}"
        return answer

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


def loopback(number: int) -> str:
    """An address to come from, of its own: failed logins from one address may be slowed."""
    return f"127.1.{number // 250}.{number % 250 + 1}"
