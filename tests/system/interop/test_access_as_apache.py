"""What was recorded of Apache's broker with access control on, asked of ours.

Ours may be stricter where Apache's lets everyone through that has a password, and where a table
below says so. It may never be less strict.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import secured
from .access import replay
from .access.signing import Session
from .access.users import Users
from .conftest import BROKERS
from .store import peer

pytestmark = pytest.mark.skipif(
    peer.VERSION == "5.3.3", reason="the record is of 5.5.0, which decides otherwise"
)
_OF_THE_MESSAGE = "the topic of the message that an offset or an id names counts"
STRICTER_REQUESTS = {"36 fields": _OF_THE_MESSAGE, "309 no topic": _OF_THE_MESSAGE}
"""Beside those that need no right of Apache's."""
STRICTER_DECISIONS = {"end of a transaction without topic, no right": _OF_THE_MESSAGE}
_UNKNOWN_WORD = "Apache takes the default for a word that it does not know"
_NAME = "names and patterns that nobody can mean"
STRICTER_STEPS = {
    "delete the last super user": "nobody could administrate any more",
    "request of the deleted super user": "it was not deleted",
    "delete ACL, not a resource": "Apache deletes all that the user has",
    "get ACL, not a resource": "that was not deleted",
    "delete ACL": "that is still there",
    "create, unknown type": _UNKNOWN_WORD,
    "get it, unknown type": _UNKNOWN_WORD,
    "create, unknown status": _UNKNOWN_WORD,
    "get it, unknown status": _UNKNOWN_WORD,
    "update, unknown status": _UNKNOWN_WORD,
    "create ACL, unknown policy type": _UNKNOWN_WORD,
    "get ACL, unknown policy type": _UNKNOWN_WORD,
    "create ACL, one unknown action": _UNKNOWN_WORD,
    "create, blank in the name": _NAME,
    "create, name of 300": _NAME,
    "create ACL, resource without name": _NAME,
    "create ACL, star within the name": _NAME,
    "get ACL, after those": "those were not made",
    "list ACLs": "those were not made",
    "delete, blank": "29 as for other requests without a name",
    "delete, no field": "29 as for other requests without a name",
}
"""Steps of requests 3001 to 3010 that ours refuses, and what follows from that."""
LENIENT_STEPS = {"update, no body": "it changes nothing"}
LENIENT_SIGNATURES = {
    "binary header, an empty value": "Apache signs the word null for it, which no client does",
    "zone, not signed": "Java clients add these fields when they have signed",
    "_UNIQUE_KEY_QUERY signed, 4.9.3": "it covers more; Go clients state a lower version",
}


@pytest.fixture(params=BROKERS)
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[peer.Address]:
    names = {"apache": "apache", "pyrmq": "open"}[request.param]
    with secured.running(names, request.param, tmp_path) as servers:
        host, _, port = servers.broker.rpartition(":")
        yield host, int(port)


@pytest.fixture
def users(broker: peer.Address) -> Iterator[Users]:
    """Those that the records are of."""
    with contextlib.closing(Session(broker)) as session:
        found = Users(session)
        found.all()
        yield found


def test_requests(broker: peer.Address, users: Users) -> None:
    """Each code by each kind of credentials, and with each single right."""
    rows = replay.kept("access_apache_5_5")["requests"]
    more = {f"{row['code']} {row['variant']}" for row in rows if not row["needs"]}
    more |= STRICTER_REQUESTS.keys()
    for what, verdict in replay.Table(broker, users).run().items():
        stricter = verdict == "Apache lets through" and what.rpartition(",")[0] in more
        assert stricter, f"{what}: {verdict}, this broker does not"


def test_decisions(broker: peer.Address, users: Users) -> None:
    for what, verdict in replay.decided(broker, users).items():
        stricter = verdict == "Apache lets through" and what in STRICTER_DECISIONS
        assert stricter, f"{what}: {verdict}, this broker does not"


@pytest.mark.usefixtures("users")
def test_signatures(broker: peer.Address) -> None:
    assert not replay.signed(broker).keys() - LENIENT_SIGNATURES.keys()


@pytest.mark.usefixtures("users")
def test_users_and_lists(broker: peer.Address) -> None:
    differences = replay.administered(broker)
    known = STRICTER_STEPS.keys() | LENIENT_STEPS.keys()
    assert {step: what for step, what in differences.items() if step not in known} == {}
