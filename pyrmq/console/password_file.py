"""The password file of the console: a line for each user, `name:role:hash`, hashes by scrypt."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import hmac
import logging
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyrmq.config.secret_file import is_open
from pyrmq.console.settings import Role
from pyrmq.errors import ConfigError
from pyrmq.escape import escape

MAX_FILE = 1 << 20
"""Most bytes of a password file."""
SHORTEST, LONGEST = 8, 1024
"""Characters of a password."""
COST, BLOCK, PARALLEL = 1 << 15, 8, 1
"""Parameters of scrypt: 32 MiB, some 0.1 s."""
MOST_COST, MOST_BLOCK, MOST_PARALLEL = 1 << 17, 16, 4
"""The most that a line may ask for."""
log = logging.getLogger(__name__)
_NAME = re.compile(r"[A-Za-z0-9._@-]{1,64}")
_HASH = re.compile(r"scrypt\$(\d{1,7})\$(\d{1,3})\$(\d{1,2})\$([\w+/=]{8,128})\$([\w+/=]{24,128})")


@dataclass(frozen=True, slots=True)
class User:
    """A line of the file. `hash`: with its parameters and its salt."""

    name: str
    role: Role
    hash: str


def hashed(password: str) -> str:
    """A new hash of a password, with a salt of its own. ConfigError for one that is too short."""
    if not SHORTEST <= len(password) <= LONGEST:
        raise ConfigError(f"a password has {SHORTEST} to {LONGEST} characters")
    salt = secrets.token_bytes(16)
    parts = (_text(salt), _text(_scrypt(password, salt, COST, BLOCK, PARALLEL)))
    return f"scrypt${COST}${BLOCK}${PARALLEL}${parts[0]}${parts[1]}"


def nobody() -> str:
    """A hash that no password has: for a user who is not there a check takes as long as for
    another."""
    salt, key = secrets.token_bytes(16), secrets.token_bytes(32)
    return f"scrypt${COST}${BLOCK}${PARALLEL}${_text(salt)}${_text(key)}"


def is_password(password: str, of: str) -> bool:
    """Whether a hash is that of a password. It takes some 0.1 s and 32 MiB."""
    found = _HASH.fullmatch(of)
    if found is None or len(password) > LONGEST:
        return False
    cost, block, parallel = (int(found[i]) for i in (1, 2, 3))
    wanted = base64.b64decode(found[5])
    given = _scrypt(password, base64.b64decode(found[4]), cost, block, parallel)
    return hmac.compare_digest(given, wanted)


def check_name(name: str) -> None:
    """ConfigError for a name that a file cannot have."""
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"user {escape(name[:80])}: a name has 1 to 64 letters, digits and the signs . _ @ -"
        )


class PasswordFile:
    """The users of a file. It is read again when it has changed. ConfigError if it cannot be read
    at the start; later the users of before stay, and the log says so, except that a file that is
    gone has none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._users = read(path)
        self._stamp = self._now()
        self._refused: tuple[int, ...] | None = None
        """The stamp of a change that was not taken."""

    def user(self, name: str) -> User | None:
        """A user of the file as it is now."""
        stamp = self._now()
        if stamp != self._stamp:
            try:
                self._users, self._stamp = read(self._path), stamp
            except ConfigError as e:
                if stamp is None:
                    self._users, self._stamp = {}, None
                    log.warning("nobody can log in: %s", escape(str(e)))
                elif stamp != self._refused:
                    self._refused = stamp
                    log.warning(
                        "the users of before stay, also those you removed: %s", escape(str(e))
                    )
        return self._users.get(name)

    def _now(self) -> tuple[int, ...] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino


def read(path: Path) -> dict[str, User]:
    """The users of a file, by name. ConfigError names the line that is wrong."""
    shown = f"password file {escape(path)}"
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            raw = file.read(MAX_FILE + 1)
    except OSError as e:
        raise ConfigError(
            f"{shown} cannot be read: {e.strerror} (pyrmq console passwords set FILE NAME makes it)"
        ) from None
    if is_open(mode):
        raise ConfigError(f"{shown} may be read by others: chmod 600")
    if len(raw) > MAX_FILE:
        raise ConfigError(f"{shown} has more than {MAX_FILE} bytes: is it the right file?")
    users: dict[str, User] = {}
    for number, line in enumerate(raw.decode(errors="replace").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        user = _user(line)
        if user is None or user.name in users:
            raise ConfigError(
                f"{shown}, line {number}: not NAME:ROLE:HASH of a user of its own, with the role "
                f"{' or '.join(role.value for role in Role)}"
            )
        users[user.name] = user
    return users


def write(path: Path, users: Iterable[User]) -> None:
    """Puts a file in the place of another at once, readable by its owner only. ConfigError."""
    text = "".join(f"{user.name}:{user.role.value}:{user.hash}\n" for user in users)
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as e:
        new.unlink(missing_ok=True)
        raise ConfigError(f"password file {escape(path)}: {e.strerror}") from None


@contextmanager
def changing(path: Path) -> Iterator[dict[str, User]]:
    """The users of a file, or none if it is missing; what is made of them is written at the end.
    Commands that change a file at the same time wait for each other: none loses a change, such as
    the removal of a user. ConfigError."""
    try:
        folder = os.open(path.absolute().parent, os.O_RDONLY)
    except OSError as e:
        raise ConfigError(f"password file {escape(path)}: {e.strerror}") from None
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        users = read(path) if path.exists() else {}
        yield users
        write(path, users.values())
    finally:
        os.close(folder)


def _user(line: str) -> User | None:
    name, _, rest = line.strip().partition(":")
    role, _, hash = rest.partition(":")
    found = _HASH.fullmatch(hash)
    if not _NAME.fullmatch(name) or role not in {r.value for r in Role} or found is None:
        return None
    cost, block, parallel = (int(found[i]) for i in (1, 2, 3))
    if not (1 < cost <= MOST_COST and cost & (cost - 1) == 0):
        return None
    if not (1 <= block <= MOST_BLOCK and 1 <= parallel <= MOST_PARALLEL):
        return None
    try:
        base64.b64decode(found[4], validate=True), base64.b64decode(found[5], validate=True)
    except ValueError:
        return None
    return User(name, Role(role), hash)


def _scrypt(password: str, salt: bytes, cost: int, block: int, parallel: int) -> bytes:
    memory = 128 * block * (cost + parallel + 2) + (1 << 20)
    raw = password.encode(errors="surrogatepass")
    return hashlib.scrypt(raw, salt=salt, n=cost, r=block, p=parallel, maxmem=memory, dklen=32)


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
