"""The access lists of a server, in config/acls.json. [LocalAuthorizationMetadataProvider]"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pyrmq.auth import secret_file
from pyrmq.auth.model import Acl, user_of
from pyrmq.errors import InvalidParameterError

FILE = "acls.json"
"""In a broker's config folder."""
MAX_ALL_ENTRIES = 100_000
"""Entries of all subjects."""
_TABLE = "acls"


class Acls:
    """By subject. A change makes a new table, and is written before it counts."""

    def __init__(self, path: Path) -> None:
        """Reads the file. ConfigError if it cannot be used. Blocking."""
        self.path = path
        self._acls = _read(path)

    def get(self, subject: str) -> Acl | None:
        return self._acls.get(subject)

    def all(self) -> list[Acl]:
        """In the order of their subjects."""
        return [self._acls[subject] for subject in sorted(self._acls)]

    def with_acl(self, acl: Acl) -> dict[str, Acl]:
        """The table with a list, new or changed; an empty list is none. InvalidParameterError if
        there are too many entries."""
        return self.with_acls([acl])

    def with_acls(self, acls: Iterable[Acl]) -> dict[str, Acl]:
        """The same with several lists."""
        changed = self._acls | {acl.subject: acl for acl in acls}
        changed = {subject: acl for subject, acl in changed.items() if not acl.is_empty}
        count = sum(len(one.custom) + len(one.default) for one in changed.values())
        if count > MAX_ALL_ENTRIES:
            raise InvalidParameterError(
                f"all subjects together have at most {MAX_ALL_ENTRIES} entries"
            )
        return changed

    def write(self, acls: dict[str, Acl]) -> None:
        """Writes a table. Blocking."""
        rows = {subject: acl.to_json() for subject, acl in acls.items()}
        secret_file.save(self.path, {_TABLE: rows})

    def take(self, acls: dict[str, Acl]) -> None:
        """From now on these are the lists."""
        self._acls = acls


def _read(path: Path) -> dict[str, Acl]:
    content = secret_file.load(path)
    if content is None:
        return {}
    table = content.get(_TABLE)
    if not isinstance(table, dict):
        raise secret_file.unusable(path, f"it has no object {_TABLE}")
    found = {}
    for number, (subject, row) in enumerate(table.items(), 1):
        try:
            if not isinstance(subject, str) or not isinstance(row, dict):
                raise InvalidParameterError("it is no object with a subject")
            user_of(subject)
            found[subject] = Acl.from_json(subject, row)
        except InvalidParameterError as e:
            raise secret_file.unusable(path, f"subject {number}: {e}") from None
    if sum(len(acl.custom) + len(acl.default) for acl in found.values()) > MAX_ALL_ENTRIES:
        raise secret_file.unusable(path, f"it has more than {MAX_ALL_ENTRIES} entries")
    return found
