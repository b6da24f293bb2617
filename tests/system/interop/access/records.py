"""The three records as they stand in tests/support/data: what is recorded, and with what."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..store import peer
from . import administration, decisions, old_broker, plain, settings, signatures, table
from .signing import Session
from .users import CREDENTIALS, Users, broker

DATA = Path(__file__).resolve().parents[3] / "support" / "data"
Rows = list[dict[str, object]]


@dataclass(frozen=True)
class Record:
    """`about`: versions and credentials; `parts`: rows by what they are about."""

    about: dict[str, object]
    parts: dict[str, Rows]

    def text(self, recorded: str) -> str:
        """JSON with one row a line, so that a change shows as the lines that it changes."""
        head = {"recorded": recorded, "by": "python -m tests.system.interop.access", **self.about}
        lines = [f'"about": {json.dumps(head, ensure_ascii=False)}']
        for part, rows in self.parts.items():
            inside = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
            lines.append(f'"{part}": [\n{inside}\n]')
        return "{" + ",\n".join(lines) + "}\n"


@contextmanager
def _served() -> Iterator[tuple[peer.Address, Users]]:
    """A broker of its own with the usual users."""
    with tempfile.TemporaryDirectory() as folder, broker(Path(folder)) as started:
        session = Session(started.address)
        users = Users(session)
        users.all()
        yield started.address, users
        session.close()


def access() -> Record:
    """Who may do what, and how it is decided."""
    with _served() as (address, users):
        requests = table.record(address, users)
    with _served() as (address, users):
        decided = decisions.record(address, users)
        signed = signatures.record(address)
    keys = {name: pair and list(pair) for name, pair in CREDENTIALS.items()}
    about: dict[str, object] = {"apache rocketmq": peer.VERSION, "credentials": keys}
    parts = {"requests": requests, "decisions": decided, "signatures": signed}
    return Record(about, {**parts, "settings": settings.record()})


def auth_requests() -> Record:
    """Requests 3001 to 3010."""
    with _served() as (address, _):
        rows = administration.record(address)
    keys = {name: list(pair) for name, pair in administration.BY.items()}
    return Record({"apache rocketmq": peer.VERSION, "users": keys}, {"steps": rows})


def access_1() -> Record:
    """Access control 1.0."""
    about: dict[str, object] = {
        "apache rocketmq": old_broker.VERSION,
        "plain_acl.yml": plain.ACL,
        "credentials": {
            name: {"keys": pair and list(pair), "from": source}
            for name, (pair, source) in plain.CREDENTIALS.items()
        },
    }
    return Record(about, {"requests": plain.record()})


RECORDS: dict[str, Callable[[], Record]] = {
    "access_apache_5_5": access,
    "auth_requests_apache_5_5": auth_requests,
    "access_apache_4_9": access_1,
}
"""By the name of the file."""


def path_of(name: str) -> Path:
    return DATA / f"{name}.json"
