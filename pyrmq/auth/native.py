"""What the engine's sessions do for who has signed, without a question to Python.

They verify signatures by a keyring. They store sends and acks, and end transactions, where that
was granted to who signed, on this connection, since the keyring was changed last; all else comes
out of the session and is checked here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from pyrmq.auth.guard import Kind
from pyrmq.engine import ACCESS_ACK, ACCESS_END, ACCESS_SEND, Keyring
from pyrmq.escape import escape
from pyrmq.net.server.connection import Connection

log = logging.getLogger(__name__)

_RIGHTS = {Kind.SEND: ACCESS_SEND, Kind.END: ACCESS_END, Kind.ACK: ACCESS_ACK}


class NativeGrants:
    """Grants to the sessions of a server. `secrets` has the secret key of each access key that
    counts now; `revoke` has to follow whenever that changes."""

    def __init__(self, secrets: Callable[[], Mapping[str, str]]) -> None:
        self.keyring = Keyring()
        self._secrets = secrets
        self.revoke()

    def grant(self, connection: Connection, subject: str, kind: Kind, resource: str) -> None:
        """From now on the session does this for who signs as `subject`."""
        connection.session.grant_access(_RIGHTS[kind], subject, resource)

    def revoke(self) -> None:
        """Nothing is granted any more, pulls included, and the secret keys are those of now."""
        try:
            self.keyring.replace(dict(self._secrets()))
        except ValueError as e:
            # No secret key of before may go on. Every signature is verified in Python then.
            log.error("the engine cannot verify signatures: %s", escape(e))
            self.keyring.replace({})
