"""The users of a server, in config/users.json. [LocalAuthenticationMetadataProvider]"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pyrmq.auth import secret_file
from pyrmq.auth.model import User, UserChange, check_user_name
from pyrmq.errors import InvalidParameterError

FILE = "users.json"
"""In a broker's config folder."""
MAX_USERS = 10_000
_TABLE = "users"


class Users:
    """By name. A change makes a new table, and is written before it counts."""

    def __init__(self, path: Path) -> None:
        """Reads the file. ConfigError if it cannot be used. Blocking."""
        self.path = path
        self.own_broker: User | None = None
        """The broker that runs with a name server. It is in no file, and not shown."""
        self._users = _read(path)

    def __len__(self) -> int:
        return len(self._users)

    def get(self, name: str) -> User | None:
        return self._users.get(name)

    def signer(self, name: str) -> User | None:
        """Who signs with this access key: a user, or the name server's own broker."""
        own = self.own_broker
        return own if own is not None and own.name == name else self._users.get(name)

    def all(self) -> list[User]:
        """In the order of their names."""
        return [self._users[name] for name in sorted(self._users)]

    @property
    def supers(self) -> list[User]:
        """Super users that are enabled."""
        return [user for user in self._users.values() if user.is_super and user.is_enabled]

    def keys(self) -> dict[str, str]:
        """Access key and secret key of whoever may sign: what a keyring of the engine takes."""
        return {user.name: user.password for user in self._users.values() if user.is_enabled}

    def with_user(self, user: User) -> dict[str, User]:
        """The table with a user, new or changed. InvalidParameterError if there are too many."""
        return self.with_users([user])

    def with_users(self, users: Iterable[User]) -> dict[str, User]:
        """The same with several users."""
        changed = self._users | {user.name: user for user in users}
        if len(changed) > MAX_USERS:
            raise InvalidParameterError(f"there are {MAX_USERS} users, and no more are taken")
        return changed

    def without(self, name: str) -> dict[str, User]:
        return {key: user for key, user in self._users.items() if key != name}

    def write(self, users: dict[str, User]) -> None:
        """Writes a table. Blocking."""
        secret_file.save(self.path, {_TABLE: _rows(users.values())})

    def take(self, users: dict[str, User]) -> None:
        """From now on these are the users."""
        self._users = users


def _rows(users: Iterable[User]) -> dict[str, Any]:
    return {user.name: user.to_json(with_password=True) for user in users}


def _read(path: Path) -> dict[str, User]:
    content = secret_file.load(path)
    if content is None:
        return {}
    table = content.get(_TABLE)
    if not isinstance(table, dict):
        raise secret_file.unusable(path, f"it has no object {_TABLE}")
    if len(table) > MAX_USERS:
        raise secret_file.unusable(path, f"it has more than {MAX_USERS} users")
    found = {}
    for number, (name, row) in enumerate(table.items(), 1):
        try:
            found[name] = _user(name, row)
        except InvalidParameterError as e:
            raise secret_file.unusable(path, f"user {number}: {e}") from None
    return found


def _user(name: object, row: object) -> User:
    if not isinstance(name, str) or not isinstance(row, dict):
        raise InvalidParameterError("it is no object with a name")
    check_user_name(name)
    change = UserChange.from_json(row)
    if change.password is None or change.type is None or change.status is None:
        raise InvalidParameterError("password, userType and userStatus are needed")
    return User(name, change.password, change.type, change.status)
