"""Users, access lists and accounts over several masters, and the access list of a form."""

from __future__ import annotations

from dataclasses import fields

import pytest

from pyrmq.admin.auth import Acl, Entry
from pyrmq.admin.outcome import Outcome
from pyrmq.console.pages.access_data import (
    MAX_ENTRIES,
    AccountRow,
    EntryRow,
    Found,
    Row,
    UserRow,
    acl_of,
    merged,
    parts_of,
    problems_of,
    steps_of,
)
from pyrmq.errors import ClientError


def test_rows_have_no_place_for_a_secret() -> None:
    names = {field.name for cls in (UserRow, AccountRow) for field in fields(cls)}
    assert not any("secret" in name or "password" in name for name in names)


def test_the_same_reason_of_several_masters_is_one_text() -> None:
    none, down = ClientError("it keeps no users"), ClientError("h:9 is down")
    failed: list[Outcome[None]] = [Outcome(f"h:{n}", error=none, name=f"b{n}") for n in range(9)]
    names = ", ".join(f"b{n}" for n in range(8))
    assert problems_of([*failed, Outcome("h:9", error=down)]) == (
        f"{names} and 1 more: it keeps no users",
        "h:9 is down",
    )


def test_masters_that_differ_are_told() -> None:
    alice, other = UserRow("alice", "Normal", "enable"), UserRow("alice", "Super", "enable")
    bob = UserRow("bob", "Normal", "disable")
    rows = merged({"a": [alice, bob], "b": [alice], "c": [other]}, lambda u: u.name)
    assert rows == (
        Row(((alice, ("a", "b")), (other, ("c",)))),
        Row(((bob, ("a",)),), ("b", "c")),
    )
    assert (rows[0].one, rows[0].others) == (alice, ("c",))
    assert not any(row.same for row in rows)
    assert merged({"a": [alice], "b": [alice]}, lambda u: u.name)[0].same


def test_an_access_list_of_a_form() -> None:
    found = acl_of("User:alice", "Topic:a, Topic:b Topic:a", ["Pub", "Sub"], "10.0.0.0/8", "Allow")
    assert found == Acl(
        "User:alice",
        tuple(Entry(f"Topic:{n}", ("Pub", "Sub"), ("10.0.0.0/8",), "Allow") for n in "ab"),
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"subject": "alice"}, {"subject": "User:"}, {"resources": " , "}, {"actions": []},
        {"actions": ["Pub", "Fly"]}, {"decision": "Maybe"},
        {"resources": " ".join(f"Topic:{n}" for n in range(MAX_ENTRIES + 1))},
        {"source_ips": " ".join(f"10.0.0.{n}" for n in range(MAX_ENTRIES + 1))},
    ],
)  # fmt: skip
def test_what_is_no_access_list(wrong: dict[str, object]) -> None:
    right = {
        "subject": "User:alice", "resources": "Topic:a", "actions": ["Pub"], "source_ips": "",
        "decision": "Allow",
    }  # fmt: skip
    assert acl_of(**right)  # type: ignore[arg-type]
    with pytest.raises(ClientError):
        acl_of(**{**right, **wrong})  # type: ignore[arg-type]


def test_parts() -> None:
    assert parts_of(" a,b  c ,a", "things") == ("a", "b", "c")


def test_a_preview_has_what_is_replaced() -> None:
    entry = EntryRow("User:alice", "Custom", "Topic:a", ("Pub",), (), "Allow")
    default = EntryRow("User:alice", "Default", "Topic:b", ("Pub",), (), "Allow")
    rows = tuple(Row(((one, ("m",)),)) for one in (entry, default))
    found = Found("C", ("C",), ("m",), rows, ())
    steps = steps_of(acl_of("User:alice", "Topic:a Topic:b", ["Sub"], "", "Deny"), found)
    assert [(s.new.resource, s.now.one if s.now else None) for s in steps] == [
        ("Topic:a", entry), ("Topic:b", None),
    ]  # fmt: skip
