"""Users and access lists of another server on this machine, as its files say.

`pyrmq server --brokers N` has its name server in a process of its own. It knows the users of the
first broker: a change that this broker has answered counts at the name server's next request.
"""

from __future__ import annotations

import logging
from pathlib import Path

from pyrmq.auth.access import Access
from pyrmq.auth.acls import Acls
from pyrmq.auth.users import Users
from pyrmq.config.files import look
from pyrmq.errors import ConfigError
from pyrmq.escape import escape

log = logging.getLogger(__name__)


class FollowedAccess(Access):
    """Both are read again when a file has been replaced. Nothing is written."""

    def __init__(self, users: Path, acls: Path, owner: str) -> None:
        """`owner`: the broker whose files they are. ConfigError if one cannot be used. Blocking."""
        self._owner = owner
        self._seen = look(users), look(acls)
        super().__init__(users, acls)

    @property
    def owner(self) -> str:
        return self._owner

    def refresh(self) -> None:
        """Looks at both files, which takes microseconds. Those that cannot be used change nothing,
        and the log says so once."""
        seen = look(self.users.path), look(self.acls.path)
        if seen == self._seen:
            return
        self._seen = seen
        try:
            users, acls = Users(self.users.path), Acls(self.acls.path)
        except ConfigError as e:
            log.error("users and access lists stay as they were: %s", escape(e))
            return
        users.own_broker = self.users.own_broker
        self.users, self.acls = users, acls
        self._changed()
