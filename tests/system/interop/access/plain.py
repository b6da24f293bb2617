"""Access control 1.0: what Apache's broker of 4.9.7 answers by conf/plain_acl.yml."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.wire import Command

from ..store import peer
from . import answers
from .old_broker import OldBroker
from .requests import (
    BACK,
    END,
    GROUP,
    OTHER,
    PLAIN,
    RETRY,
    SEND,
    SEND_V2,
    TOPIC,
    TOPIC_SETTINGS,
    Request,
    every,
)
from .signing import Keys, Session, loopback

_SECRET = "secret-of-{0}"
NAMES = ("nothing", "denied", "pub", "sub", "both", "defaults", "admin", "white")
WHITE, GLOBAL, HERE = "127.0.0.3", "127.0.0.9", "127.0.0.1"
ACL = f"""\
globalWhiteRemoteAddresses:
- {GLOBAL}
accounts:
- accessKey: account-nothing
  secretKey: {_SECRET.format("nothing")}
- accessKey: account-denied
  secretKey: {_SECRET.format("denied")}
  defaultTopicPerm: PUB|SUB
  defaultGroupPerm: SUB
  topicPerms:
  - {TOPIC}=DENY
  groupPerms:
  - {GROUP}=DENY
- accessKey: account-pub
  secretKey: {_SECRET.format("pub")}
  topicPerms:
  - {TOPIC}=PUB
- accessKey: account-sub
  secretKey: {_SECRET.format("sub")}
  topicPerms:
  - {TOPIC}=SUB
  groupPerms:
  - {GROUP}=SUB
- accessKey: account-both
  secretKey: {_SECRET.format("both")}
  topicPerms:
  - {TOPIC}=PUB|SUB
  groupPerms:
  - {GROUP}=PUB|SUB
- accessKey: account-defaults
  secretKey: {_SECRET.format("defaults")}
  defaultTopicPerm: PUB|SUB
  defaultGroupPerm: SUB
- accessKey: account-admin
  secretKey: {_SECRET.format("admin")}
  admin: true
- accessKey: account-white
  secretKey: {_SECRET.format("white")}
  whiteRemoteAddress: {WHITE}
"""


def keys(name: str) -> Keys:
    return f"account-{name}", _SECRET.format(name)


CREDENTIALS: dict[str, tuple[Keys | None, str]] = {
    "absent": (None, HERE),
    "unknown": (keys("unknown"), HERE),
    "wrong": (("account-admin", "another-secret"), HERE),
    **{name: (keys(name), HERE) for name in NAMES},
    "white, wrong, from its address": (("account-white", "another-secret"), WHITE),
    "absent, from a white address of all": (None, GLOBAL),
    "absent, from the address of white": (None, WHITE),
}
"""By name: what a request is signed with, and the address that it comes from."""

CODES = (
    10, 310, 320, 11, 12, 14, 15, 34, 35, 36, 37, 38, 41, 42, 105, 17, 25, 26, 29, 30, 33, 46, 200,
    201, 202, 203, 208, 215, 207, 222, 324, 325, 361,
)  # fmt: skip


def _own() -> list[Request]:
    """Those of the line of 4.x."""
    account = {
        "accessKey": "account-made",
        "secretKey": "secret-of-made",
        "admin": "false",
        "defaultTopicPerm": "PUB",
        "topicPerms": f"{TOPIC}=SUB",
    }
    return [
        Request(10, "retry topic, its group", {**SEND, "topic": RETRY, "group": GROUP}, b"hello"),
        Request(310, "retry topic, its group", {**SEND_V2, "b": RETRY, "a": GROUP}, b"hello"),
        Request(36, "another group", {**BACK, "group": OTHER}),
        Request(37, "producer group", {**END, "producerGroup": GROUP}),
        Request(50, PLAIN, account),
        Request(50, "short secret", {**account, "secretKey": "short"}),
        Request(50, "short key", {**account, "accessKey": "short"}),
        Request(50, "odd permission", {**account, "topicPerms": f"{TOPIC}=ODD"}),
        Request(52),
        Request(53, PLAIN, {"globalWhiteAddrs": GLOBAL, "globalWhiteRemoteAddresses": GLOBAL}),
        Request(54),
        Request(51, PLAIN, {"accessKey": "account-made"}),
        Request(51, "again", {"accessKey": "account-made"}),
    ]


def requests() -> list[Request]:
    """In the order in which they are sent."""
    wanted = [request for request in every() if request.code in CODES and request.code != 12]
    query = [request for request in every() if request.code == 12]
    return [*query, *wanted, *_own()]


def record() -> list[dict[str, Any]]:
    """A row for each request, sent with each of CREDENTIALS."""
    with tempfile.TemporaryDirectory() as folder, peer.NameServer(Path(folder) / "n") as names:
        home = Path(folder) / "broker"
        with OldBroker(names.address, ACL, home=home) as broker:
            return ask_all(broker.address, answers.kind)


def ask_all(
    address: peer.Address, seen: Callable[[Command | None], object]
) -> list[dict[str, Any]]:
    """A row for each request: what is seen of the answer to each of CREDENTIALS. Each request comes
    from an address of its own: failed logins from one address are slowed."""
    sources = (HERE, WHITE, GLOBAL)
    sessions = {source: Session(address, source, patience=3) for source in sources}
    rows: list[tuple[Request, dict[str, Any]]] = []
    for number, request in enumerate(requests()):
        got = {}
        here = Session(address, loopback(number), patience=3)
        for name, (pair, source) in CREDENTIALS.items():
            _prepare(sessions[HERE])
            session = here if source == HERE else sessions[source]
            got[name] = seen(session.ask(request.command(), pair))
        here.close()
        rows.append((request, {"code": request.code, "variant": request.variant, "answers": got}))
    for session in sessions.values():
        session.close()
    rows.sort(key=lambda pair: (pair[0].code, pair[0].variant != PLAIN, pair[0].variant))
    return [row for _, row in rows]


def _prepare(session: Session) -> None:
    admin = keys("admin")
    for topic in (TOPIC, "GoneTopic"):
        session.ask(Command(17, {**TOPIC_SETTINGS, "topic": topic}), admin)
    for group in (GROUP, "GoneGroup"):
        session.ask(Command(200, {}, b'{"groupName":"%s"}' % group.encode()), admin)
