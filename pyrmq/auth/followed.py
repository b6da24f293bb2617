"""Users and access lists of another server on this machine, as its files say.

`pyrmq server --brokers N` has its name server in a process of its own. It knows the users of the
first broker: a change that this broker has answered counts at the name server's next request.
"""

from __future__ import annotations

import logging
from pathlib import Path

import trio

from pyrmq.auth.access import Access
from pyrmq.auth.acls import Acls
from pyrmq.auth.users import Users
from pyrmq.config.files import look
from pyrmq.errors import ConfigError
from pyrmq.escape import escape

log = logging.getLogger(__name__)

RETRY = 1.0
"""Seconds after which files are read again that could not be used."""


class FollowedAccess(Access):
    """Both are read again when a file has been replaced. Nothing is written."""

    def __init__(self, users: Path, acls: Path, owner: str) -> None:
        """`owner`: the broker whose files they are. ConfigError if one cannot be used. Blocking."""
        self._owner = owner
        self._seen = look(users), look(acls)
        self._failed: tuple[object, object] | None = None
        """The files that could not be used."""
        self._again = 0.0
        """When they are read again."""
        super().__init__(users, acls)

    @property
    def owner(self) -> str:
        return self._owner

    def refresh(self) -> None:
        """Looks at both files, which takes microseconds. Those that cannot be used change nothing,
        and the log says so once; they are read again after a while."""
        seen = look(self.users.path), look(self.acls.path)
        if seen == self._seen:
            return
        now = trio.current_time()
        if seen == self._failed and now < self._again:
            return
        try:
            users, acls = Users(self.users.path), Acls(self.acls.path)
        except ConfigError as e:
            if seen != self._failed:
                log.error("users and access lists stay as they were: %s", escape(e))
            # Its mode may change, or descriptors come free, without a change of the file.
            self._failed, self._again = seen, now + RETRY
            return
        self._seen, self._failed = seen, None
        users.own_broker = self.users.own_broker
        self.users, self.acls = users, acls
        self._changed()
