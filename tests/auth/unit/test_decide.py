"""Which entry of an access list decides, beside a model that is written differently."""

from __future__ import annotations

from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrmq.auth.decide import Need, allows
from pyrmq.auth.model import (
    Acl,
    Action,
    Decision,
    PolicyEntry,
    Resource,
    parse_network,
    topic,
)

PUB = Need(topic("orders"), frozenset({Action.PUB}))
HOME = ip_address("10.0.0.5")


def entry(
    resource: str, *actions: Action, deny: bool = False, source: tuple[str, ...] = ()
) -> PolicyEntry:
    return PolicyEntry(
        Resource.parse(resource),
        frozenset(actions or {Action.PUB}),
        Decision.DENY if deny else Decision.ALLOW,
        source,
        tuple(map(parse_network, source)),
    )


def decides(*custom: PolicyEntry, default: tuple[PolicyEntry, ...] = (), need: Need = PUB) -> bool:
    return allows(Acl("User:a", custom, default), need, HOME)


def test_without_a_match_nothing_is_allowed() -> None:
    assert not allows(None, PUB, HOME)
    assert not decides()
    assert not decides(entry("Group:orders"), entry("Topic:order"), entry("Topic:orders2*"))
    assert not decides(entry("Topic:orders", Action.SUB))


@pytest.mark.parametrize("resource", ["*", "Topic:*", "Topic:o*", "Topic:orders*", "Topic:orders"])
def test_resources_that_match(resource: str) -> None:
    assert decides(entry(resource))
    assert not decides(entry(resource, deny=True))


@pytest.mark.parametrize(
    ("weaker", "stronger"),
    [("*", "Topic:*"), ("Topic:*", "Topic:o*"), ("Topic:o*", "Topic:ord*"),
     ("Topic:orders*", "Topic:orders"), ("*", "Topic:orders")],
)  # fmt: skip
def test_the_most_specific_resource_decides(weaker: str, stronger: str) -> None:
    for entries in ((weaker, stronger), (stronger, weaker)):
        assert decides(*(entry(r, deny=r == weaker) for r in entries))
        assert not decides(*(entry(r, deny=r == stronger) for r in entries))


def test_of_equal_entries_a_denial_counts() -> None:
    """RocketMQ's comparator has it the other way round, against its own comment."""
    assert not decides(entry("Topic:orders"), entry("Topic:orders", deny=True))
    assert not decides(entry("Topic:orders", deny=True), entry("Topic:orders"))


def test_default_entries_count_where_no_custom_one_matches() -> None:
    allowed, denied = entry("*"), entry("Topic:orders", deny=True)
    assert decides(default=(allowed,))
    assert decides(allowed, default=(denied,))
    assert not decides(entry("Topic:*", deny=True), default=(entry("Topic:orders"),))
    assert decides(entry("Topic:orders", Action.SUB, deny=True), default=(allowed,))


def test_any_one_of_the_actions_is_enough() -> None:
    need = Need(topic("orders"), frozenset({Action.SUB, Action.GET}))
    assert decides(entry("*", Action.GET), need=need)
    assert decides(entry("*", Action.ALL), need=need)
    assert not decides(entry("*", Action.PUB), need=need)


def test_source_addresses() -> None:
    near = Acl("User:a", (entry("*", source=("10.0.0.0/8", "::1")),))
    assert allows(near, PUB, HOME)
    assert allows(near, PUB, ip_address("::1"))
    assert not allows(near, PUB, ip_address("11.0.0.1"))
    assert not allows(near, PUB, None)
    host_bits = Acl("User:a", (entry("*", source=("10.9.9.9/8",)),))
    assert allows(host_bits, PUB, HOME)


def test_a_source_that_does_not_match_leaves_others_to_decide() -> None:
    assert decides(entry("Topic:orders", deny=True, source=("11.0.0.0/8",)), entry("*"))


# The model: numbers for what is specific, and a loop. It shares no code with `decide`.

RESOURCES = ["*", "Topic:*", "Topic:o*", "Topic:or*", "Topic:orders", "Topic:x", "Group:*"]
SOURCES = [(), ("10.0.0.0/8",), ("11.0.0.1",), ("11.0.0.1", "10.0.0.5")]
ENTRIES = st.builds(
    lambda resource, actions, deny, source: entry(resource, *actions, deny=deny, source=source),
    st.sampled_from(RESOURCES),
    st.lists(st.sampled_from(list(Action)), min_size=1, max_size=3),
    st.booleans(),
    st.sampled_from(SOURCES),
)


def weight(text: str) -> int:
    if text == "*":
        return 0
    kind, name = text.split(":")
    if kind != "Topic":
        return -1
    if not name.endswith("*"):
        return 1000 if name == "orders" else -1
    return len(name) if "orders".startswith(name[:-1]) else -1


def judged(entries: list[PolicyEntry], actions: set[Action]) -> str:
    best, verdict = -1, ""
    for one in entries:
        fits = "10.0.0.5" in one.source_ips or "10.0.0.0/8" in one.source_ips or not one.source_ips
        if not fits or not (actions | {Action.ALL}) & one.actions:
            continue
        own = weight(str(one.resource))
        if own > best:
            best, verdict = own, one.decision.value
        elif own == best >= 0 and one.decision is Decision.DENY:
            verdict = "Deny"
    return verdict


@given(
    st.lists(ENTRIES, max_size=6),
    st.lists(ENTRIES, max_size=4),
    st.sets(st.sampled_from([a for a in Action if a is not Action.ALL]), min_size=1, max_size=3),
)
def test_as_the_model(
    custom: list[PolicyEntry], default: list[PolicyEntry], actions: set[Action]
) -> None:
    acl = Acl("User:a", tuple(custom), tuple(default))
    verdict = judged(custom, actions) or judged(default, actions)
    assert allows(acl, Need(topic("orders"), frozenset(actions)), HOME) == (verdict == "Allow")
