"""Users and access lists in a file of what a cluster should be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyrmq.admin.auth import Acl, Entry, User
from pyrmq.admin.cluster_plan import BrokerState, described, steps_of
from pyrmq.admin.desired import FORMAT, Desired, parse
from pyrmq.admin.desired_access import password_of, told_acl, told_user
from pyrmq.errors import ConfigError

LIST = """
acls:
  "User:alice":
    policies:
    - entries:
      - {resource: "Topic:orders", actions: [Sub, Pub], decision: Allow}
      - {resource: "Group:*", actions: [Sub], sourceIps: ["10.0.0.0/8"], decision: Allow}
"""


def of(text: str) -> Desired:
    return parse(f"format: {FORMAT}\ncluster: C\n{text}".encode())


def state(name: str = "broker-a", users: Any = None, acls: Any = None) -> BrokerState:
    return BrokerState(name, f"{name}:10911", {}, {}, {}, users, acls)


def acl(*entries: Entry) -> dict[str, Any]:
    return told_acl(Acl("User:alice", entries))


ALICE = told_user(User("alice", None, "Normal", "enable"))
ORDERS = Entry("Topic:orders", ("Pub", "Sub"), (), "Allow", "Custom")
GROUPS = Entry("Group:*", ("Sub",), ("10.0.0.0/8",), "Allow", "Custom")


def steps(text: str, have: BrokerState, *, prune: bool = False) -> list[tuple[Any, ...]]:
    return [
        (s.kind, s.name, s.change, {f.field: (f.old, f.new) for f in s.fields})
        for s in steps_of(of(text), have, prune=prune)
    ]


def test_a_password_is_in_no_description() -> None:
    have = state(users={"alice": told_user(User("alice", "geheim", "Super", "disable"))}, acls={})
    text = described("C", [have]).to_text()
    assert "geheim" not in text
    assert "alice: {userType: Super, userStatus: disable}" in text


def test_a_description_has_no_difference() -> None:
    default = Entry("*", ("All",), (), "Deny", "Default")
    a = state(users={"alice": ALICE, "bob": ALICE}, acls={"User:alice": acl(ORDERS, GROUPS)})
    b = state("broker-b", users={"alice": ALICE}, acls={"User:alice": acl(default)})
    c = state("broker-c")
    again = parse(described("C", [a, b, c]).to_text().encode())
    assert again.users is not None
    assert again.users["alice"].on == {"broker-a": {}, "broker-b": {}}
    for one in (a, b):
        assert list(steps_of(again, one, prune=True)) == []
    none = described("C", [c])
    assert none.users is None
    assert none.acls is None


def test_the_order_of_entries_and_actions_says_nothing() -> None:
    have = state(acls={"User:alice": acl(GROUPS, ORDERS)})
    assert steps(LIST, have) == []


def test_entries_that_differ() -> None:
    read = Entry("Topic:orders", ("Sub",), (), "Allow", "Custom")
    more = Entry("Topic:mails", ("Pub",), (), "Allow", "Custom")
    have = state(acls={"User:alice": acl(GROUPS, read, more)})
    assert steps(LIST, have) == [
        (
            "access list", "User:alice", "change",
            {
                "Custom Topic:mails": ("Allow Pub", None),
                "Custom Topic:orders": ("Allow Sub", "Allow Pub, Sub"),
            },
        )
    ]  # fmt: skip


def test_users_before_their_lists_and_lists_before_users_that_go() -> None:
    have = state(users={"gone": ALICE}, acls={"User:gone": acl(ORDERS)})
    found = steps("users: {alice: {userType: Super}}\n" + LIST, have, prune=True)
    assert [one[:3] for one in found] == [
        ("user", "alice", "create"),
        ("access list", "User:alice", "create"),
        ("access list", "User:gone", "delete"),
        ("user", "gone", "delete"),
    ]
    kept = steps("users: {alice: {}}", have)
    assert [one[:3] for one in kept] == [("user", "alice", "create"), ("user", "gone", "keep")]


def test_where_a_password_is_is_not_compared() -> None:
    have = state(users={"alice": ALICE})
    assert steps("users: {alice: {passwordEnv: X}}", have) == []
    assert steps("users: {alice: {passwordEnv: X, userStatus: disable}}", have) == [
        ("user", "alice", "change", {"userStatus": ("enable", "disable")})
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("users: {alice: {password: x}}", "a password has no place in the file"),
        ("users: {alice: {userType: Emperor}}", "userType is Super or Normal"),
        ("users: {alice: {userStatus: 1}}", "userStatus is enable or disable"),
        ("users: {alice: {status: enable}}", "unknown key 'status': userType"),
        ("users: {alice: {passwordEnv: 7}}", "passwordEnv is a text"),
        ("users: {alice: {passwordEnv: a, passwordFile: b}}", "one of passwordFile and"),
        ("users: {'a b': {}}", "the username is illegal"),
        ("users: [alice]", "users is a mapping"),
        ("acls: {alice: {policies: []}}", "the subject 'alice' is illegal"),
        ("acls: {'User:alice': {}}", "policies is missing"),
        ("acls: {'User:alice': {entries: []}}", "unknown key 'entries': policies"),
        ("acls: {'User:alice': {policies: [{entries: []}]}}", "entries is empty"),
        (LIST.replace("Sub, Pub", "Sing"), "the action"),
        (LIST.replace("10.0.0.0/8", "10.0.0.0/99"), "is no address or network"),
        (LIST.replace("Topic:orders", "Table:orders"), "type of the resource"),
    ],
)
def test_what_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        of(text)


def test_where_a_password_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "secret"
    file.write_text("geheim\n")
    monkeypatch.setenv("ALICE", "hush")
    monkeypatch.delenv("NOBODY", raising=False)
    assert password_of("alice", {"passwordFile": str(file)}) == "geheim"
    assert password_of("alice", {"passwordEnv": "ALICE"}) == "hush"
    file.write_text("\n")
    (long := tmp_path / "long").write_text("x" * 4097)
    for members, said in (
        ({}, "no password for the new user alice: create it first"),
        ({"passwordEnv": "NOBODY"}, "is empty: NOBODY"),
        ({"passwordFile": str(file)}, "is empty"),
        ({"passwordFile": str(tmp_path / "none")}, "cannot be read"),
        ({"passwordFile": "a\0b"}, "cannot be read"),
        ({"passwordFile": str(long)}, "more than 4096 bytes"),
    ):
        with pytest.raises(ConfigError, match=said):
            password_of("alice", members)
