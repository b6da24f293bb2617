"""Apache's broker with access control 2.0 on, and the users that requests are sent by."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tests.support.wire import Command

from ..store import peer
from . import answers
from .signing import Keys, Session

SUPER: Keys = ("super", "super-secret")
INNER: Keys = ("inner", "inner-secret")
ADMIN: Keys = ("admin", "admin-secret")
NONE: Keys = ("none", "none-secret")
RIGHT: Keys = ("right", "right-secret")
DISABLED: Keys = ("disabled", "disabled-secret")
UNKNOWN: Keys = ("unknown", "unknown-secret")
WRONG: Keys = ("admin", "not-its-secret")

CREDENTIALS: dict[str, Keys | None] = {
    "absent": None,
    "unknown": UNKNOWN,
    "wrong": WRONG,
    "disabled": DISABLED,
    "none": NONE,
    "right": RIGHT,
    "admin": ADMIN,
    "super": SUPER,
}
"""By name: nothing, a user that is not there, a wrong secret key, a disabled user, one without any
policy, one with just what the request needs, one with all of clusters, topics and groups."""
ACTIONS = ("Pub", "Sub", "Create", "Update", "Delete", "Get", "List")
_AUTH = "org.apache.rocketmq.auth"
Policy = dict[str, object]
Entry = dict[str, object]


def conf(**changes: str) -> str:
    """Lines of broker.conf; `changes`: other values, or "" for none."""
    where = f"{_AUTH}.authentication.provider", f"{_AUTH}.authorization.provider"
    lines = {
        "timerWheelEnable": "true",  # without it no topic is deleted
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "authenticationProvider": f"{where[0]}.DefaultAuthenticationProvider",
        "authenticationMetadataProvider": f"{where[0]}.LocalAuthenticationMetadataProvider",
        "authorizationProvider": f"{where[1]}.DefaultAuthorizationProvider",
        "authorizationMetadataProvider": f"{where[1]}.LocalAuthorizationMetadataProvider",
        "initAuthenticationUser": json.dumps({"username": SUPER[0], "password": SUPER[1]}),
        "innerClientAuthenticationCredentials": json.dumps(
            {"accessKey": INNER[0], "secretKey": INNER[1]}
        ),
    }
    return "".join(f"{key}={value}\n" for key, value in (lines | changes).items() if value)


@contextlib.contextmanager
def broker(folder: Path, **changes: str) -> Iterator[peer.RealBroker]:
    """Name server and broker of Apache's, access control on; `changes` of its configuration."""
    with peer.NameServer(folder / "namesrv") as names:
        home = folder / "broker"
        text = conf(**changes)
        with peer.RealBroker(home / "store", names.address, text, home=home) as started:
            yield started


def entry(resource: str, *actions: str, decision: str = "Allow", ips: Sequence[str] = ()) -> Entry:
    """One entry of a policy, as AclInfo has it."""
    made: Entry = {"resource": resource, "actions": list(actions), "decision": decision}
    return made | ({"sourceIps": list(ips)} if ips else {})


class Users:
    """Makes users and policies, as the super user."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def ask(self, code: int, ext: dict[str, str], body: object = None) -> Command:
        data = b"" if body is None else json.dumps(body).encode()
        answer = self._session.ask(Command(code, ext, data), SUPER)
        assert answer is not None, f"no answer to {code} {ext}"
        return answer

    def _done(self, code: int, ext: dict[str, str], body: object = None) -> None:
        answer = self.ask(code, ext, body)
        assert answer.code == 0, f"{code} {ext}: {answer.code} {answer.remark}"

    def create(self, keys: Keys, kind: str = "Normal", status: str = "enable") -> None:
        user = {"password": keys[1], "userType": kind, "userStatus": status}
        self._done(3001, {"username": keys[0]}, user)

    def clear(self, keys: Keys) -> None:
        """No policies any more."""
        self.ask(3008, {"subject": f"User:{keys[0]}"})

    def allow(self, keys: Keys, entries: Iterable[Entry], kind: str = "Custom") -> Command:
        """These entries in place of all."""
        self.clear(keys)
        return self.add(keys, entries, kind)

    def add(self, keys: Keys, entries: Iterable[Entry], kind: str = "Custom") -> Command:
        """These entries with those of other resources that are there."""
        policies = [{"policyType": kind, "entries": list(entries)}]
        return self.ask(3006, {"subject": f"User:{keys[0]}"}, {"policies": policies})

    def all(self) -> None:
        """The users of CREDENTIALS; `inner` is there by configuration."""
        for keys in (ADMIN, NONE, RIGHT):
            self.create(keys)
        self.create(DISABLED, status="disable")
        wide = ("Cluster:*", "Topic:*", "Group:*")
        for keys in (ADMIN, DISABLED):
            self.allow(keys, [entry(resource, "All") for resource in wide])


def needs(users: Users, session: Session, command: Command) -> dict[str, list[str]]:
    """By resource, each action that suffices for it, found by trying them one by one.

    Further resources are found when the first ones are granted.
    """
    found: dict[str, list[str]] = {}
    users.clear(RIGHT)
    while (lacks := answers.missing(session.ask(command, RIGHT))) is not None:
        granted = [entry(resource, "All") for resource in found]
        assert lacks not in found, f"All does not suffice for {lacks}: {command}"
        found[lacks] = []
        for action in ACTIONS:
            users.allow(RIGHT, [*granted, entry(lacks, action)])
            if answers.missing(session.ask(command, RIGHT)) != lacks:
                found[lacks].append(action)
        users.allow(RIGHT, [*granted, entry(lacks, "All")])
    return found
