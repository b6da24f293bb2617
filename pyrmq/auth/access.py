"""Users and access lists of a server, and how they are changed.
[AuthenticationMetadataManagerImpl, AuthorizationMetadataManagerImpl]

Changes are made one at a time. One counts when it is on disk; then `on_changed` is called, which
ends what was decided before.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from secrets import token_hex

import trio

from pyrmq.auth import audit
from pyrmq.auth.acls import Acls
from pyrmq.auth.audit import Asker, shown_acl, shown_user
from pyrmq.auth.model import (
    Acl,
    PolicyType,
    Resource,
    User,
    UserChange,
    UserType,
    check_user_name,
    user_of,
)
from pyrmq.auth.users import Users
from pyrmq.errors import (
    InvalidParameterError,
    NoPermissionError,
    ResponseError,
    ServiceNotAvailableError,
)
from pyrmq.model.codes import ResponseCode
from pyrmq.net.client.credentials import Credentials

CREATE_SUPER = "The super user can only be create by super user"
UPDATE_SUPER = "The super user can only be update by super user"
LAST_SUPER = (
    "this is the last super user that is enabled: make or enable another one before it is deleted, "
    "disabled or made a normal user"
)


def _wrong_code(error: InvalidParameterError) -> NoPermissionError:
    """RocketMQ has one code for whatever a rule refuses."""
    return NoPermissionError(str(error))


class Access:
    """Both, with their files."""

    def __init__(self, users: Path, acls: Path) -> None:
        """Reads both files. ConfigError if one cannot be used. Blocking."""
        self.users = Users(users)
        self.acls = Acls(acls)
        self.on_changed: list[Callable[[], None]] = []
        self._lock = trio.Lock()

    @property
    def owner(self) -> str:
        """Whose files they are, if they are another server's: then nothing is changed here."""
        return ""

    def refresh(self) -> None:
        """Called before each check. There is nothing to do where every change is made here."""

    def know_own_broker(self) -> Credentials:
        """Has the broker of this name server be a super user, in memory; what it signs with."""
        name, password = f"own broker {token_hex(8)}", token_hex(32)
        # A blank: no name of a user, as check_user_name has it.
        self.users.own_broker = User(name, password, UserType.SUPER)
        return Credentials(name, password)

    def ensure_super(self, name: str, password: str) -> None:
        """Makes a super user, unless there is a user of this name. Blocking, at start only."""
        if self.users.get(name) is None:
            made = self.users.with_user(User(name, password, UserType.SUPER))
            self.users.write(made)
            self.users.take(made)
            audit.changed(
                Asker(None, "start", True), "createUser", name, audit.NOTHING,
                shown_user(self.users.get(name)),
            )  # fmt: skip

    async def create_user(self, asker: Asker, name: str, change: UserChange) -> None:
        """NoPermissionError for what a rule forbids; ServiceNotAvailableError if it cannot be
        saved, and so for all below."""
        if change.type is UserType.SUPER and not asker.is_super:
            raise ResponseError(CREATE_SUPER, ResponseCode.SYSTEM_ERROR)
        try:
            check_user_name(name)
        except InvalidParameterError as e:
            raise _wrong_code(e) from None
        if change.password is None:
            raise NoPermissionError("password can not be blank")
        async with self._lock:
            if self.users.get(name) is not None:
                raise NoPermissionError("The user is existed")
            user = change.of(User(name, change.password))
            await self._set_user(asker, "createUser", None, user)

    async def update_user(self, asker: Asker, name: str, change: UserChange) -> None:
        if change.type is UserType.SUPER and not asker.is_super:
            raise ResponseError(UPDATE_SUPER, ResponseCode.SYSTEM_ERROR)
        async with self._lock:
            before = self.users.get(name)
            if before is None:
                raise NoPermissionError("The user is not exist")
            if before.is_super and not asker.is_super:
                raise NoPermissionError(UPDATE_SUPER)
            after = change.of(before)
            if not (after.is_super and after.is_enabled):
                self._check_last(before)
            what = "updateUser" if after.password == before.password else "updateUser (password)"
            await self._set_user(asker, what, before, after)

    async def _set_user(self, asker: Asker, what: str, before: User | None, after: User) -> None:
        try:
            made = self.users.with_user(after)
        except InvalidParameterError as e:
            raise _wrong_code(e) from None
        await _saved(lambda: self.users.write(made), "the user")
        self.users.take(made)
        self._changed()
        audit.changed(asker, what, after.name, shown_user(before), shown_user(after))

    async def delete_user(self, asker: Asker, name: str) -> None:
        """The user's access list goes with it, first: no user of that name gets it later. A user
        that is not there is no error, as in RocketMQ."""
        async with self._lock:
            user = self.users.get(name)
            if user is None:
                return
            if user.is_super and not asker.is_super:
                raise NoPermissionError(UPDATE_SUPER)
            self._check_last(user)
            acl = self.acls.get(user.subject)
            if acl is not None:
                await self._set_acl(asker, "deleteAcl", acl, Acl(acl.subject))
            left = self.users.without(name)
            outcome = "Nothing is changed" if acl is None else "Only its access list is gone"
            await _saved(lambda: self.users.write(left), "the users", outcome)
            self.users.take(left)
            self._changed()
            audit.changed(asker, "deleteUser", name, shown_user(user), audit.NOTHING)

    def _check_last(self, user: User) -> None:
        """NoPermissionError if no super user would be left that is enabled."""
        if self.users.supers == [user]:
            raise NoPermissionError(LAST_SUPER)

    async def update_acl(self, asker: Asker, what: str, acl: Acl) -> None:
        """Adds entries, or replaces those of the same resources; createAcl does the same."""
        async with self._lock:
            self._require(acl.subject, f"The subject of {acl.subject} is not exist.")
            before = self.acls.get(acl.subject)
            try:
                after = acl if before is None else before.updated(acl)
            except InvalidParameterError as e:
                raise _wrong_code(e) from None
            await self._set_acl(asker, what, before, after)

    async def delete_acl(
        self, asker: Asker, subject: str, policy: PolicyType, resource: Resource | None
    ) -> None:
        """Deletes the entries of a resource, or without one the whole list."""
        async with self._lock:
            self._require(subject, "The subject is not exist.")
            before = self.acls.get(subject)
            if before is None:
                raise NoPermissionError("The acl is not exist.")
            after = Acl(subject) if resource is None else before.without(policy, resource)
            await self._set_acl(asker, "deleteAcl", before, after)

    async def _set_acl(self, asker: Asker, what: str, before: Acl | None, after: Acl) -> None:
        try:
            made = self.acls.with_acl(after)
        except InvalidParameterError as e:
            raise _wrong_code(e) from None
        await _saved(lambda: self.acls.write(made), "the access list")
        self.acls.take(made)
        self._changed()
        audit.changed(asker, what, after.subject, shown_acl(before), shown_acl(after))

    def acl_of(self, subject: str) -> Acl | None:
        """The list of a subject that is there. NoPermissionError if it is not."""
        self._require(subject, "The subject is not exist.")
        return self.acls.get(subject)

    def _require(self, subject: str, text: str) -> None:
        if self.users.get(user_of(subject)) is None:
            raise NoPermissionError(text)

    def _changed(self) -> None:
        for callback in self.on_changed:
            callback()


async def _saved(write: Callable[[], None], what: str, outcome: str = "Nothing is changed") -> None:
    """Writes in a thread. ServiceNotAvailableError if that fails."""
    try:
        await trio.to_thread.run_sync(write)
    except OSError as e:
        raise ServiceNotAvailableError(f"{what} cannot be saved: {e.strerror}. {outcome}") from e
