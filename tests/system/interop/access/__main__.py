"""Starts Apache's servers and writes the recorded answers to tests/support/data."""

from __future__ import annotations

import datetime
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ..store import peer
from . import administration, decisions, old_broker, plain, settings, signatures, table
from .signing import Session
from .users import CREDENTIALS, Users, broker

DATA = Path(__file__).resolve().parents[3] / "support" / "data"
Rows = list[dict[str, object]]


def _write(name: str, about: dict[str, object], parts: dict[str, Rows]) -> None:
    """One row a line, so that a change shows as the lines that it changes."""
    head = {
        "apache rocketmq": peer.VERSION,
        "recorded": datetime.date.today().isoformat(),
        "by": "python -m tests.system.interop.access",
        **about,
    }
    lines = [f'"about": {json.dumps(head, ensure_ascii=False)}']
    for part, rows in parts.items():
        inside = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
        lines.append(f'"{part}": [\n{inside}\n]')
    DATA.mkdir(exist_ok=True)
    (DATA / name).write_text("{" + ",\n".join(lines) + "}\n")
    print(f"{name}: {', '.join(f'{part} {len(rows)}' for part, rows in parts.items())}")


@contextmanager
def _served() -> Iterator[tuple[peer.Address, Users]]:
    """A broker of its own with the usual users."""
    with tempfile.TemporaryDirectory() as folder, broker(Path(folder)) as started:
        session = Session(started.address)
        users = Users(session)
        users.all()
        yield started.address, users
        session.close()


def access() -> None:
    """Who may do what, and how it is decided."""
    with _served() as (address, users):
        requests = table.record(address, users)
    with _served() as (address, users):
        decided = decisions.record(address, users)
        signed = signatures.record(address)
    parts = {
        "requests": requests,
        "decisions": decided,
        "signatures": signed,
        "settings": settings.record(),
    }
    about: dict[str, object] = {
        "credentials": {name: keys and list(keys) for name, keys in CREDENTIALS.items()}
    }
    _write("access_apache_5_5.json", about, parts)


def auth_requests() -> None:
    """Requests 3001 to 3010."""
    with _served() as (address, _):
        rows = administration.record(address)
    keys = {name: list(pair) for name, pair in administration.BY.items()}
    _write("auth_requests_apache_5_5.json", {"users": keys}, {"steps": rows})


def access_1() -> None:
    """Access control 1.0."""
    about: dict[str, object] = {
        "apache rocketmq": old_broker.VERSION,
        "plain_acl.yml": plain.ACL,
        "credentials": {
            name: {"keys": pair and list(pair), "from": source}
            for name, (pair, source) in plain.CREDENTIALS.items()
        },
    }
    _write("access_apache_4_9.json", about, {"requests": plain.record()})


RECORDS: dict[str, Callable[[], None]] = {
    "access": access,
    "auth-requests": auth_requests,
    "access-1": access_1,
}


def main() -> None:
    """All records, or those that are named."""
    for name in sys.argv[1:] or RECORDS:
        RECORDS[name]()


main()
