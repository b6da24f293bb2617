"""Users and access lists as bodies and files state them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrmq.auth.model import (
    MAX_ENTRIES,
    MAX_NAME,
    MAX_SOURCE_IPS,
    Acl,
    Action,
    Decision,
    Pattern,
    PolicyEntry,
    PolicyType,
    Resource,
    ResourceType,
    User,
    UserChange,
    UserStatus,
    UserType,
    check_password,
    check_user_name,
    parse_network,
    user_of,
)
from pyrmq.errors import InvalidParameterError
from pyrmq.net import fastjson

ENTRY: dict[str, Any] = {
    "actions": ["Pub", "Sub"], "decision": "Allow", "resource": "Topic:T*",
    "sourceIps": ["10.0.0.0/8", "::1"],
}  # fmt: skip


def test_user_info_is_rocketmqs() -> None:
    user = User("alice", "secret", UserType.SUPER)
    text = fastjson.dumps(user.to_json(with_password=True))
    assert text == (
        b'{"password":"secret","userStatus":"enable","userType":"Super","username":"alice"}'
    )
    assert "password" not in user.to_json(with_password=False)


def test_no_password_in_a_repr() -> None:
    assert "secret" not in repr(User("alice", "secret"))
    assert "secret" not in repr(UserChange("secret"))


def test_a_change_keeps_what_it_does_not_state() -> None:
    user = User("alice", "secret", UserType.SUPER, UserStatus.DISABLE)
    assert UserChange.from_json({}).of(user) == user
    assert UserChange.from_json({"password": "  "}).of(user) == user
    changed = UserChange.from_json({"userType": "normal", "userStatus": "ENABLE", "password": "x"})
    assert changed.of(user) == User("alice", "x", UserType.NORMAL, UserStatus.ENABLE)


@pytest.mark.parametrize(
    "row", [{"userType": "Root"}, {"userStatus": 1}, {"password": 7}, {"password": "a\nb"}]
)
def test_what_is_no_user(row: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameterError):
        UserChange.from_json(row)


@pytest.mark.parametrize("name", ["", " ", "a b", "a\tb", "a\x00", "a" * (MAX_NAME + 1), "\u202ea"])
def test_names_that_no_user_has(name: str) -> None:
    with pytest.raises(InvalidParameterError):
        check_user_name(name)


def test_names_and_passwords_of_users() -> None:
    check_user_name("a" * MAX_NAME)
    check_user_name("team:alice@example.org")
    check_password("with blanks, ünïcode")
    with pytest.raises(InvalidParameterError):
        check_password("")
    assert user_of("User:team:alice") == "team:alice"
    for subject in ("alice", "Role:alice", "User:", ""):
        with pytest.raises(InvalidParameterError):
            user_of(subject)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("*", Resource(ResourceType.ANY, "", Pattern.ANY)),
        ("Any:*", Resource(ResourceType.ANY, "", Pattern.ANY)),
        ("Topic:orders", Resource(ResourceType.TOPIC, "orders")),
        ("topic:orders", Resource(ResourceType.TOPIC, "orders")),
        ("Group:*", Resource(ResourceType.GROUP, "", Pattern.ANY)),
        ("Cluster:C*", Resource(ResourceType.CLUSTER, "C", Pattern.PREFIXED)),
        ("Namespace:n", Resource(ResourceType.NAMESPACE, "n")),
        ("Topic:a:b", Resource(ResourceType.TOPIC, "a:b")),
    ],
)
def test_resources(text: str, found: Resource) -> None:
    assert Resource.parse(text) == found
    assert Resource.parse(str(found)) == found


@pytest.mark.parametrize(
    "text",
    ["", "orders", "Topic", "Topic:", "Any:orders", "Queue:orders", "Topic:a*b*", "Topic:**",
     "Topic:a\nb", "Topic:" + "a" * 256],
)  # fmt: skip
def test_what_is_no_resource(text: str) -> None:
    """`Topic:a*b*` would be a prefix of one letter with RocketMQ, `Any:orders` everything."""
    with pytest.raises(InvalidParameterError):
        Resource.parse(text)


@pytest.mark.parametrize("text", ["10.0.0.5", "10.0.0.5/8", "0.0.0.0/0", "fd00::/8", "::1"])
def test_source_addresses(text: str) -> None:
    parse_network(text)


@pytest.mark.parametrize("text", ["", "*", "10.0.0", "10.0.0.0/33", "host", "10.0.0.0/x", "::1%1",
                                  "10.0.0.0/255.0.0.0", None, 7])  # fmt: skip
def test_what_is_no_source_address(text: object) -> None:
    with pytest.raises(InvalidParameterError):
        parse_network(text)


def test_acl_info_is_rocketmqs() -> None:
    row = {
        "policies": [{"entries": [ENTRY], "policyType": "Custom"}, {"entries": [ENTRY]}],
        "subject": "User:alice",
    }
    acl = Acl.from_json("User:alice", row)
    assert [e.resource.name for e in acl.custom] == ["T", "T"]
    acl = Acl.from_json("User:alice", {"policies": [{"entries": [ENTRY], "policyType": "default"}]})
    assert fastjson.dumps(acl.to_json()) == (
        b'{"policies":[{"entries":[{"actions":["Pub","Sub"],"decision":"Allow",'
        b'"resource":"Topic:T*","sourceIps":["10.0.0.0/8","::1"]}],"policyType":"Default"}],'
        b'"subject":"User:alice"}'
    )
    assert Acl.from_json("User:alice", acl.to_json()) == acl


@pytest.mark.parametrize(
    "change",
    [
        {"resource": None}, {"resource": ""}, {"actions": []}, {"actions": None},
        {"actions": ["Any"]}, {"actions": ["Fly"]}, {"actions": "Pub"}, {"actions": [1]},
        {"decision": None}, {"decision": "Maybe"}, {"sourceIps": ["nowhere"]},
        {"sourceIps": "10.0.0.1"}, {"sourceIps": ["10.0.0.1"] * (MAX_SOURCE_IPS + 1)},
    ],
)  # fmt: skip
def test_what_is_no_entry(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameterError):
        PolicyEntry.from_json(ENTRY | change)


@pytest.mark.parametrize(
    "row",
    [{}, {"policies": []}, {"policies": [{}]}, {"policies": [{"entries": []}]}, {"policies": 7},
     {"policies": [7]}, {"policies": [{"entries": [7]}]},
     {"policies": [{"entries": [ENTRY], "policyType": "Other"}]}],
)  # fmt: skip
def test_what_is_no_acl(row: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameterError):
        Acl.from_json("User:alice", row)


def test_entries_are_bounded() -> None:
    def of(first: int, count: int) -> Acl:
        entries = [ENTRY | {"resource": f"Topic:t{n}"} for n in range(first, first + count)]
        return Acl.from_json("User:a", {"policies": [{"entries": entries}]})

    whole = of(0, MAX_ENTRIES)
    assert whole.updated(whole) == whole
    with pytest.raises(InvalidParameterError):
        whole.updated(of(MAX_ENTRIES, 1))


def entry(resource: str, decision: Decision = Decision.ALLOW) -> PolicyEntry:
    return PolicyEntry(Resource.parse(resource), frozenset({Action.PUB}), decision)


def test_an_update_replaces_entries_of_the_same_resource() -> None:
    acl = Acl("User:a", (entry("Topic:a"), entry("Topic:b")), (entry("Topic:a"),))
    denied = entry("Topic:a", Decision.DENY)
    changed = acl.updated(Acl("User:a", (denied,)))
    assert set(changed.custom) == {denied, entry("Topic:b")}
    assert changed.default == acl.default


def test_entries_are_removed_by_resource() -> None:
    acl = Acl("User:a", (entry("Topic:a"), entry("Topic:a*")))
    left = acl.without(PolicyType.CUSTOM, Resource.parse("Topic:a"))
    assert left.custom == (entry("Topic:a*"),)
    assert left.without(PolicyType.CUSTOM, Resource.parse("Topic:a*")).is_empty


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["Pub", "*"]),
    lambda value: st.lists(value, max_size=3) | st.dictionaries(
        st.sampled_from([
            "policies", "entries", "policyType", "resource", "actions", "decision", "sourceIps",
            "username", "password", "userType", "userStatus",
        ]),
        value, max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(["policies", "password", "userType", "userStatus"]), JSON))
def test_whatever_is_stated_is_taken_or_refused(row: dict[str, Any]) -> None:
    with suppress(InvalidParameterError):
        acl = Acl.from_json("User:a", row)
        assert Acl.from_json("User:a", acl.to_json()) == acl
    with suppress(InvalidParameterError):
        UserChange.from_json(row)


@given(st.text(max_size=20))
def test_texts_of_resources_are_kept(text: str) -> None:
    with suppress(InvalidParameterError):
        found = Resource.parse(text)
        assert Resource.parse(str(found)) == found
