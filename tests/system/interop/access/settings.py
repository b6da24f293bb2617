"""What other settings of access control change: one broker for each, a few requests by all."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.support.wire import Command

from ..store import peer
from . import answers
from .requests import SEND_V2, TOPIC, TOPIC_SETTINGS
from .signing import Session
from .users import ADMIN, CREDENTIALS, SUPER, Users, broker

_STATEFUL = "org.apache.rocketmq.auth.{0}.strategy.Stateful{1}Strategy"
SETTINGS: dict[str, dict[str, str]] = {
    "both": {},
    "authentication only": {"authorizationEnabled": "false"},
    "authorization only": {"authenticationEnabled": "false"},
    "white list of authentication 30,310": {"authenticationWhitelist": "30,310"},
    "white list of authorization 30,310": {"authorizationWhitelist": "30, 310"},
    "white lists of both 30": {"authenticationWhitelist": "30", "authorizationWhitelist": "30"},
    "no metadata providers": {
        "authenticationMetadataProvider": "",
        "authorizationMetadataProvider": "",
        "initAuthenticationUser": "",
        "innerClientAuthenticationCredentials": "",
    },
    "stateful": {
        "authenticationStrategy": _STATEFUL.format("authentication", "Authentication"),
        "authorizationStrategy": _STATEFUL.format("authorization", "Authorization"),
    },
}
"""By name: other values than those of users.py."""
REQUESTS = {
    "read": Command(30, {"topic": TOPIC, "queueId": "0"}),
    "send": Command(310, dict(SEND_V2), b"hello"),
    "configuration": Command(26),
    "users": Command(3005),
}
SECRETS = ("super-secret", "inner-secret")


def record() -> list[dict[str, object]]:
    """One row for each setting and request."""
    rows: list[dict[str, object]] = []
    for name, changes in SETTINGS.items():
        with (
            tempfile.TemporaryDirectory() as folder,
            broker(Path(folder), **changes) as started,
        ):
            session = Session(started.address)
            if changes.get("authenticationMetadataProvider") != "":
                Users(session).all()
            session.ask(Command(17, TOPIC_SETTINGS), SUPER)
            for what, command in REQUESTS.items():
                got = {
                    who: answers.kind(session.ask(command, keys))
                    for who, keys in CREDENTIALS.items()
                    if who != "right"
                }
                rows.append(
                    {"setting": name, "request": what, "code": command.code, "answers": got}
                )
            if name == "both":
                rows += _holes(session)
            session.close()
            if name == "stateful":
                rows += _remembered(started.address)
    return rows


def _remembered(address: peer.Address) -> list[dict[str, object]]:
    """What a connection remembers: the same request by `admin`, with right and wrong secrets."""
    rows: list[dict[str, object]] = []
    right, wrong = ("right secret", CREDENTIALS["admin"]), ("wrong secret", CREDENTIALS["wrong"])
    for order in ((right, wrong), (wrong, right)):
        session = Session(address)
        for number, (what, keys) in enumerate(order):
            words = f"{what}, {('first', 'then')[number]}"
            answer = answers.kind(session.ask(REQUESTS["read"], keys))
            rows.append({"setting": "stateful", "request": words, "code": 30, "answer": answer})
        session.close()
    return rows


def _holes(session: Session) -> list[dict[str, object]]:
    """What a user without any policy can do with the configuration."""
    none = CREDENTIALS["none"]
    shown = session.ask(Command(26), none)
    assert shown is not None
    leaks = [secret for secret in SECRETS if secret.encode() in shown.body]
    rows: list[dict[str, object]] = [
        {"setting": "both", "request": "secrets in the answer to 26 by none", "found": leaks}
    ]
    off = Command(25, {}, b"authorizationEnabled=false\nauthenticationEnabled=false\n")
    for what, command, keys in (
        ("none switches access control off", off, none),
        ("none sends after that", REQUESTS["send"], none),
        ("a stranger sends after that", REQUESTS["send"], None),
        ("back on", Command(25, {}, off.body.replace(b"false", b"true")), ADMIN),
    ):
        got = {"answer": answers.kind(session.ask(command, keys))}
        rows.append({"setting": "both", "request": what, "code": command.code, **got})
    return rows
