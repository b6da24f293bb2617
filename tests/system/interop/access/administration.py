"""Requests 3001 to 3010, one after the other: each meets the state that those before it left.

The answers are recorded in full, since operators and mqadmin read them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from tests.support.wire import Command

from ..store import peer
from . import answers
from .requests import SEND_V2
from .signing import Keys, Session
from .users import ADMIN, NONE, RIGHT, SUPER, Entry, entry

ALICE: Keys = ("alice", "alice-secret")
BOB: Keys = ("bob", "bob-secret")
BOSS: Keys = ("boss", "boss-secret")
BY = {"super": SUPER, "admin": ADMIN, "none": NONE, "right": RIGHT, "alice": ALICE, "bob": BOB,
      "boss": BOSS}  # fmt: skip
CREATE, UPDATE, DELETE, GET, LIST = range(3001, 3006)
CREATE_ACL, UPDATE_ACL, DELETE_ACL, GET_ACL, LIST_ACL = range(3006, 3011)


@dataclass(frozen=True)
class Step:
    """One request by one user; `body`: JSON, or text that is sent as it is."""

    name: str
    code: int
    ext: dict[str, str]
    body: object = None
    by: str = "super"

    @property
    def data(self) -> bytes:
        if self.body is None:
            return b""
        return (self.body if isinstance(self.body, str) else json.dumps(self.body)).encode()


def _user(name: str) -> dict[str, str]:
    return {"username": name}


def _of(name: str) -> dict[str, str]:
    return {"subject": f"User:{name}"}


def _acl(*entries: Entry, kind: str | None = "Custom") -> dict[str, object]:
    policy: dict[str, object] = {"entries": list(entries)}
    return {"policies": [policy | ({"policyType": kind} if kind else {})]}


_PASSWORD = {"password": ALICE[1]}


def _users() -> list[Step]:
    full = {"password": ALICE[1], "userType": "Normal", "userStatus": "enable"}
    return [
        Step("create", CREATE, _user("alice"), full),
        Step("create again", CREATE, _user("alice"), full),
        Step("get", GET, _user("alice")),
        Step("get as one without rights", GET, _user("alice"), by="none"),
        Step("get oneself without rights", GET, _user("alice"), by="alice"),
        Step("get with rights", GET, _user("alice"), by="admin"),
        Step("get, blank", GET, _user("")),
        Step("get, no field", GET, {}),
        Step("get, unknown", GET, _user("nobody")),
        Step("get the inner user", GET, _user("inner")),
        Step("get the first user", GET, _user("super")),
        Step("list", LIST, {}),
        Step("list, filter", LIST, {"filter": "li"}),
        Step("list, other case", LIST, {"filter": "ALI"}),
        Step("list, nothing matches", LIST, {"filter": "zzz"}),
        Step("create, blank", CREATE, _user(""), full),
        Step("create, no field", CREATE, {}, full),
        Step("create, no body", CREATE, _user("new1")),
        Step("create, not JSON", CREATE, _user("new2"), "{not"),
        Step("create, empty object", CREATE, _user("new3"), {}),
        Step("create, blank password", CREATE, _user("new4"), {"password": ""}),
        Step("create, only a password", CREATE, _user("new5"), {"password": "p"}),
        Step("get it", GET, _user("new5")),
        Step("create, other name in the body", CREATE, _user("new6"), {**full, "username": "x"}),
        Step("create, unknown type", CREATE, _user("new7"), {**full, "userType": "Other"}),
        Step("get it, unknown type", GET, _user("new7")),
        Step("create, unknown status", CREATE, _user("new8"), {**full, "userStatus": "odd"}),
        Step("get it, unknown status", GET, _user("new8")),
        Step("create, type in capitals", CREATE, _user("new9"), {**full, "userType": "NORMAL"}),
        Step("create disabled", CREATE, _user("new10"), {**full, "userStatus": "disable"}),
        Step("get it, created disabled", GET, _user("new10")),
        Step("create, colon in the name", CREATE, _user("a:b"), full),
        Step("create, star in the name", CREATE, _user("a*"), full),
        Step("create, blank in the name", CREATE, _user("a b"), full),
        Step("create, Chinese name", CREATE, _user("用户"), full),
        Step("get it, Chinese name", GET, _user("用户")),
        Step("create, name of 300", CREATE, _user("n" * 300), full),
        Step("create a super user", CREATE, _user("boss"),
             {"password": BOSS[1], "userType": "Super"}),
        Step("create a super user as a normal one", CREATE, _user("boss2"),
             {"password": "p", "userType": "Super"}, by="admin"),
        Step("create as a normal one", CREATE, _user("bob"), {"password": BOB[1]}, by="admin"),
        Step("create without rights", CREATE, _user("eve"), full, by="alice"),
    ]  # fmt: skip


def _changes() -> list[Step]:
    return [
        Step("update password", UPDATE, _user("alice"), {"password": "alice-secret-2"}),
        Step("get, password updated", GET, _user("alice")),
        Step("request with the old password", 310, SEND_V2, "hello", by="alice"),
        Step("update password back", UPDATE, _user("alice"), _PASSWORD),
        Step("update, blank password", UPDATE, _user("alice"), {"password": ""}),
        Step("get, blank password", GET, _user("alice")),
        Step("update status", UPDATE, _user("alice"), {"userStatus": "disable"}),
        Step("get, disabled", GET, _user("alice")),
        Step("request while disabled", 310, SEND_V2, "hello", by="alice"),
        Step("update status back", UPDATE, _user("alice"), {"userStatus": "enable"}),
        Step("request, enabled again", 310, SEND_V2, "hello", by="alice"),
        Step("update, unknown status", UPDATE, _user("alice"), {"userStatus": "odd"}),
        Step("update, nothing", UPDATE, _user("alice"), {}),
        Step("update, no body", UPDATE, _user("alice")),
        Step("update, blank", UPDATE, _user(""), _PASSWORD),
        Step("update, no field", UPDATE, {}, _PASSWORD),
        Step("update, unknown user", UPDATE, _user("nobody"), _PASSWORD),
        Step("update oneself without rights", UPDATE, _user("alice"), _PASSWORD, by="alice"),
        Step("update oneself with rights", UPDATE, _user("admin"), {"password": ADMIN[1]},
             by="admin"),
        Step("make oneself a super user", UPDATE, _user("admin"), {"userType": "Super"},
             by="admin"),
        Step("update a super user as a normal one", UPDATE, _user("boss"), {"password": "x"},
             by="admin"),
        Step("disable a super user as a normal one", UPDATE, _user("boss"),
             {"userStatus": "disable"}, by="admin"),
        Step("update another normal one as a normal one", UPDATE, _user("bob"),
             {"password": BOB[1]}, by="admin"),
        Step("make a super user", UPDATE, _user("bob"), {"userType": "Super"}),
        Step("get, made super", GET, _user("bob")),
        Step("request by it", 310, SEND_V2, "hello", by="bob"),
        Step("make it normal again", UPDATE, _user("bob"), {"userType": "Normal"}, by="boss"),
        Step("disable oneself as a super user", UPDATE, _user("boss"), {"userStatus": "disable"},
             by="boss"),
        Step("enable it again", UPDATE, _user("boss"), {"userStatus": "enable"}),
    ]  # fmt: skip


def _acls() -> list[Step]:
    pub, sub = entry("Topic:T1", "Pub"), entry("Topic:T2", "Sub")
    alice = _of("alice")

    def bad(name: str, **change: object) -> Step:
        kept = {key: value for key, value in {**pub, **change}.items() if value is not None}
        return Step(f"create ACL, {name}", CREATE_ACL, _of("bob"), _acl(kept))

    return [
        Step("get ACL, none", GET_ACL, alice),
        Step("create ACL", CREATE_ACL, alice, _acl(pub)),
        Step("get ACL", GET_ACL, alice),
        Step("create ACL, another resource", CREATE_ACL, alice, _acl(sub)),
        Step("get ACL, two resources", GET_ACL, alice),
        Step("create ACL, same resource", CREATE_ACL, alice, _acl(entry("Topic:T1", "Sub"))),
        Step("get ACL, same resource", GET_ACL, alice),
        Step("update ACL", UPDATE_ACL, alice, _acl(entry("Topic:T1", "All", decision="Deny"))),
        Step("create ACL, default policy", CREATE_ACL, alice, _acl(pub, kind="Default")),
        Step("create ACL, addresses", CREATE_ACL, alice,
             _acl(entry("Group:G*", "Sub", "Get", ips=("10.0.0.1", "10.1.0.0/16")))),
        Step("get ACL, all kinds", GET_ACL, alice),
        Step("get ACL without rights", GET_ACL, alice, by="alice"),
        Step("get ACL with rights", GET_ACL, alice, by="admin"),
        Step("get ACL, other case", GET_ACL, {"subject": "user:alice"}),
        Step("create ACL, no policy type", CREATE_ACL, _of("new5"), _acl(pub, kind=None)),
        Step("get ACL, no policy type", GET_ACL, _of("new5")),
        Step("create ACL, unknown policy type", CREATE_ACL, _of("new6"), _acl(pub, kind="Odd")),
        Step("get ACL, unknown policy type", GET_ACL, _of("new6")),
        Step("update ACL where none is", UPDATE_ACL, _of("new9"), _acl(pub)),
        Step("create ACL, subject in the body", CREATE_ACL, _of("bob"),
             {**_acl(pub), "subject": "User:alice"}),
        Step("create ACL, unknown user", CREATE_ACL, _of("nobody"), _acl(pub)),
        Step("update ACL, unknown user", UPDATE_ACL, _of("nobody"), _acl(pub)),
        Step("create ACL, no subject", CREATE_ACL, {}, _acl(pub)),
        Step("create ACL, blank subject", CREATE_ACL, {"subject": ""}, _acl(pub)),
        Step("create ACL, subject without name", CREATE_ACL, {"subject": "User:"}, _acl(pub)),
        Step("create ACL, subject without type", CREATE_ACL, {"subject": "alice"}, _acl(pub)),
        Step("create ACL, subject of another type", CREATE_ACL, {"subject": "Role:a"}, _acl(pub)),
        Step("create ACL, no body", CREATE_ACL, _of("bob")),
        Step("create ACL, not JSON", CREATE_ACL, _of("bob"), "{not"),
        Step("create ACL, empty object", CREATE_ACL, _of("bob"), {}),
        Step("create ACL, no policies", CREATE_ACL, _of("bob"), {"policies": []}),
        Step("create ACL, no entries", CREATE_ACL, _of("bob"), _acl()),
        bad("no resource", resource=None),
        bad("blank resource", resource=""),
        bad("resource without type", resource="T1"),
        bad("resource of another type", resource="Queue:T1"),
        bad("resource without name", resource="Topic:"),
        bad("star within the name", resource="Topic:a*b"),
        bad("everything", resource="*"),
        bad("no actions", actions=None),
        bad("empty actions", actions=[]),
        bad("unknown action", actions=["Fly"]),
        bad("one unknown action", actions=["Pub", "Fly"]),
        bad("action Any", actions=["Any"]),
        bad("actions in capitals", actions=["PUB"]),
        bad("no decision", decision=None),
        bad("unknown decision", decision="Maybe"),
        bad("decision in capitals", decision="ALLOW"),
        bad("not an address", sourceIps=["here"]),
        bad("a blank address", sourceIps=[""]),
        bad("a pattern of addresses", sourceIps=["10.*.*.*"]),
        bad("an IPv6 network", sourceIps=["fe80::/10"]),
        Step("get ACL, after those", GET_ACL, _of("bob")),
        Step("create ACL without rights", CREATE_ACL, alice, _acl(pub), by="alice"),
        Step("create ACL as a normal one", CREATE_ACL, _of("bob"), _acl(pub), by="admin"),
        Step("create ACL of oneself", CREATE_ACL, _of("admin"), _acl(entry("*", "All")),
             by="admin"),
        Step("create ACL of a super user", CREATE_ACL, _of("boss"), _acl(pub), by="admin"),
        Step("get ACL, no subject", GET_ACL, {}),
        Step("get ACL, unknown user", GET_ACL, _of("nobody")),
        Step("list ACLs", LIST_ACL, {}),
        Step("list ACLs, subject", LIST_ACL, {"subjectFilter": "alic"}),
        Step("list ACLs, subject with its type", LIST_ACL, {"subjectFilter": "User:alice"}),
        Step("list ACLs, resource", LIST_ACL, {"resourceFilter": "T2"}),
        Step("list ACLs, resource with its type", LIST_ACL, {"resourceFilter": "Topic:T2"}),
        Step("list ACLs, both", LIST_ACL, {"subjectFilter": "alice", "resourceFilter": "G"}),
        Step("list ACLs, nothing matches", LIST_ACL, {"subjectFilter": "zzz"}),
    ]  # fmt: skip


def _ends() -> list[Step]:
    alice = _of("alice")
    return [
        Step("delete ACL, a resource", DELETE_ACL, {**alice, "resource": "Topic:T2"}),
        Step("delete ACL, a resource that is not there", DELETE_ACL,
             {**alice, "resource": "Topic:X"}),
        Step("delete ACL, a resource of the default policy", DELETE_ACL,
             {**alice, "resource": "Topic:T1", "policyType": "Default"}),
        Step("get ACL, resources deleted", GET_ACL, alice),
        Step("delete ACL, not a resource", DELETE_ACL, {**alice, "resource": "odd"}),
        Step("get ACL, not a resource", GET_ACL, alice),
        Step("delete ACL without rights", DELETE_ACL, alice, by="alice"),
        Step("delete ACL", DELETE_ACL, alice),
        Step("delete ACL again", DELETE_ACL, alice),
        Step("delete ACL, unknown user", DELETE_ACL, _of("nobody")),
        Step("delete ACL, no subject", DELETE_ACL, {}),
        Step("get ACL, deleted", GET_ACL, alice),
        Step("create ACL to go with its user", CREATE_ACL, alice, _acl(entry("Topic:T1", "Pub"))),
        Step("delete without rights", DELETE, _user("alice"), by="alice"),
        Step("delete a super user as a normal one", DELETE, _user("boss"), by="admin"),
        Step("delete", DELETE, _user("alice")),
        Step("delete again", DELETE, _user("alice")),
        Step("delete, blank", DELETE, _user("")),
        Step("delete, no field", DELETE, {}),
        Step("request of a deleted user", 310, SEND_V2, "hello", by="alice"),
        Step("get, deleted", GET, _user("alice")),
        Step("get ACL of a deleted user", GET_ACL, alice),
        Step("create it again", CREATE, _user("alice"), _PASSWORD),
        Step("get ACL of a user made again", GET_ACL, alice),
        Step("delete oneself as a normal one", DELETE, _user("admin"), by="admin"),
        Step("delete a super user", DELETE, _user("boss"), by="super"),
        Step("delete the last super user", DELETE, _user("super"), by="super"),
        Step("request of the deleted super user", LIST, {}, by="super"),
    ]  # fmt: skip


def every() -> list[Step]:
    return [*_users(), *_changes(), *_acls(), *_ends()]


def record(address: peer.Address) -> list[dict[str, object]]:
    """On a broker that has the users of CREDENTIALS, `right` and `none` with no policies."""
    session = Session(address)
    rows: list[dict[str, object]] = []
    for step in every():
        answer = session.ask(Command(step.code, dict(step.ext), step.data), BY[step.by])
        row: dict[str, object] = {"step": step.name, "code": step.code, "ext": step.ext}
        if step.body is not None:
            row["sent"] = step.body
        rows.append({**row, "by": step.by, "answer": answers.shown(answer)})
    session.close()
    return rows
