"""Members of a group that subscribe to different things, and what becomes of the group's set."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrmq.broker.tables.clients import Client, ClientTable
from pyrmq.broker.tables.subscriptions import SILENCE, Agreement
from pyrmq.model.subscription import Subscription
from tests.support.build import FakeConnection


class World:
    """A table of clients, and the groups that it announced."""

    def __init__(self) -> None:
        self.announced: list[str] = []
        self.revoked = 0
        self.table = ClientTable(lambda group: self.announced.append(group.name), self._revoke)

    def _revoke(self, name: str, wanted: dict[str, Subscription]) -> None:
        self.revoked += 1

    def beat(
        self,
        connection: FakeConnection,
        client_id: str,
        subs: dict[str, str],
        *,
        version: int = 1,
        now: float = 0,
        keep: bool = False,
        fingerprint: int = 0,
        **more: Any,
    ) -> bool:
        """A heartbeat of a member of g with these expressions by topic."""
        data = {
            "groupName": "g",
            "subscriptionDataSet": [
                Subscription.parse(topic, text, version).to_json() for topic, text in subs.items()
            ],
            **more,
        }
        return self.table.register_consumer(
            data,
            connection,
            Client(client_id, 0, 479, now),
            notify=True,
            keep_subscriptions=keep,
            fingerprint=fingerprint,
        )

    @property
    def group(self) -> Any:
        return self.table.consumers["g"]

    def wanted(self) -> dict[str, str]:
        return {topic: sub.sub_string for topic, sub in self.group.subscriptions.items()}


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def members() -> list[FakeConnection]:
    return [FakeConnection() for _ in range(3)]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [r.getMessage() for r in caplog.records if r.levelno >= logging.INFO]
    caplog.clear()
    return [text for text in found if "group g" in text]


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        ({"T": "a"}, {"T": "a"}, False),
        ({"T": "a || b"}, {"T": "b||a"}, False),
        ({"T": ""}, {"T": "*"}, False),
        ({"T": "a"}, {"T": "b"}, True),
        ({"T": "a"}, {"T": "*"}, True),
        ({"T": "*"}, {"U": "*"}, True),
        ({"T": "*", "U": "*"}, {"T": "*"}, True),
        ({}, {"T": "*"}, True),
    ],
)
def test_what_counts(
    world: World,
    members: list[FakeConnection],
    one: dict[str, str],
    other: dict[str, str],
    differ: bool,
) -> None:
    world.beat(members[0], "one", one)
    assert not world.group.agreement.differs
    world.beat(members[1], "other", other, version=2)
    assert world.group.agreement.differs == differ
    world.beat(members[2], "third", other, messageModel="BROADCASTING")
    assert world.group.agreement.differs, "who broadcasts shares nothing"
    members[2].close()
    members[1].close()
    assert not world.group.agreement.differs


def test_who_pulls_by_itself_does_not_count(world: World, members: list[FakeConnection]) -> None:
    world.beat(members[0], "one", {"T": "*"})
    world.beat(members[1], "two", {"U": "*"}, consumeType="CONSUME_ACTIVELY")
    assert not world.group.agreement.differs
    world.beat(members[1], "two", {"U": "*"}, consumeType="CONSUME_PASSIVELY")
    assert world.group.agreement.differs
    world.beat(members[1], "two", {"U": "*"}, consumeType="CONSUME_ACTIVELY")
    assert not world.group.agreement.differs
    assert world.group.agreement.shown(members[1]) is None


def test_it_is_logged_once_for_each_change(
    world: World, members: list[FakeConnection], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    a, b, _ = members
    for now in range(3):
        world.beat(a, "one\n", {"T": "x", "U": "*"}, now=now)
        world.beat(b, "two", {"T": "y", "U": "*"}, now=now)
    (line,) = warnings(caplog)
    assert "one\\n wants T (x); two wants T (y)" in line
    world.beat(b, "two", {"T": "z", "U": "*"}, version=2, now=4)
    assert warnings(caplog) == [], "not that often"
    for now in (SILENCE, SILENCE + 1):
        world.beat(a, "one\n", {"T": "x", "U": "*"}, now=now)
    (line,) = warnings(caplog)
    assert "two wants T (z)" in line
    world.beat(b, "two", {"T": "x", "U": "*"}, version=3, now=SILENCE + 2)
    (line,) = warnings(caplog)
    assert "same again" in line
    world.beat(b, "two", {"T": "x", "U": "*"}, version=3, now=SILENCE + 3)
    assert warnings(caplog) == []


def test_a_long_line_is_cut(
    world: World, members: list[FakeConnection], caplog: pytest.LogCaptureFixture
) -> None:
    world.beat(members[0], "one", {f"Topic{n}": "*" for n in range(500)})
    world.beat(members[1], "two", {"T": " || ".join(map(str, range(500)))})
    (line,) = warnings(caplog)
    assert len(line) < 700
    assert "T (500 tags)" in line


def test_heartbeats_notify_as_rocketmqs_do(world: World, members: list[FakeConnection]) -> None:
    """Each undoes the other: once for each heartbeat, as ever. Expressions alone: never."""
    a, b, _ = members
    world.beat(a, "one", {"T": "*"})
    world.beat(b, "two", {"U": "*"})
    world.announced.clear()
    for _ in range(3):
        world.beat(a, "one", {"T": "*"})
        assert world.wanted() == {"T": "*"}
        world.beat(b, "two", {"U": "*"})
        assert world.wanted() == {"U": "*"}
    assert len(world.announced) == 6
    world.beat(a, "one", {"U": "x"})
    world.announced.clear()
    for version in (2, 3):
        world.beat(a, "one", {"U": "x"}, version=version)
        world.beat(b, "two", {"U": "y"}, version=version)
    assert world.announced == []


def test_who_leaves_takes_its_wishes_along(world: World, members: list[FakeConnection]) -> None:
    """Its clock may have been ahead of the others': their own versions would never count."""
    a, b, c = members
    world.beat(a, "one", {"T": "a"}, version=5)
    world.beat(c, "three", {"T": "a"}, version=4)
    world.beat(b, "two", {"T": "b"}, version=99)
    world.beat(a, "one", {"T": "a"}, version=5)
    assert world.wanted() == {"T": "b"}
    before = world.revoked
    b.close()
    assert (world.wanted(), world.group.subscriptions["T"].version) == ({"T": "a"}, 5)
    assert world.revoked > before, "pulls are to be checked again"
    world.beat(b, "two", {"T": "b"}, version=7)  # it joins again
    assert world.wanted() == {"T": "b"}
    world.table.unregister(a, producer_group=None, consumer_group="g")
    assert world.wanted() == {"T": "b"}
    world.table.unregister(b, producer_group=None, consumer_group="g")
    assert (world.wanted(), world.group.subscriptions["T"].version) == ({"T": "a"}, 4)


def test_topics_of_who_leaves_stay_until_the_next_heartbeat(
    world: World, members: list[FakeConnection]
) -> None:
    a, b, _ = members
    world.beat(a, "one", {"T": "*"})
    world.beat(b, "two", {"U": "*"})
    b.close()
    assert world.wanted() == {"U": "*"}
    world.beat(a, "one", {"T": "*"})
    assert world.wanted() == {"T": "*"}


def test_members_share_what_is_the_same(world: World, members: list[FakeConnection]) -> None:
    for n, member in enumerate(members):
        world.beat(member, f"c{n}", {"T": "a"})
    stated = {id(m.subscriptions["T"]) for m in world.group.agreement._members.values()}
    assert stated == {id(world.group.subscriptions["T"])}


def test_who_says_the_same_again_makes_nothing_new(
    world: World, members: list[FakeConnection]
) -> None:
    """With 100,000 groups that would be as many objects in half a minute."""
    first = members[0]
    said = {"T": "A || B", "U": "*"}
    world.beat(first, "c", said)
    kept = world.group.agreement._members[first]
    world.beat(first, "c", said, now=30)
    assert world.group.agreement._members[first] is kept
    for subs, more in (
        ({"T": "A"}, {}),
        (said, {}),
        (said, {"version": 2}),
        (said, {"messageModel": "BROADCASTING"}),
    ):
        world.beat(first, "c", subs, **more)
        assert world.group.agreement._members[first] is not kept, (subs, more)
        kept = world.group.agreement._members[first]
    world.beat(first, "other", said, messageModel="BROADCASTING", version=2)
    assert world.group.agreement._members[first].client_id == "other"


def test_who_keeps_its_subscriptions_to_itself(world: World, members: list[FakeConnection]) -> None:
    """Heartbeat V2: the answer says whether the broker has to hear them again."""
    a, b, _ = members
    assert not world.beat(a, "one", {"T": "*"}, fingerprint=7)
    assert not world.beat(a, "one", {}, fingerprint=7, keep=True)
    assert world.beat(b, "two", {}, fingerprint=8, keep=True), "the group's was another one"
    assert world.group.agreement.shown(b) is None
    assert not world.group.agreement.differs
    world.beat(b, "two", {"U": "*"}, fingerprint=8)
    assert world.group.agreement.differs
    world.beat(b, "two", {"U": "*"})  # a client that knows no V2
    assert world.beat(a, "one", {}, fingerprint=7, keep=True)
    for member in (a, b):
        member.close()
    assert world.beat(a, "one", {}, fingerprint=7, keep=True), "nobody has told this broker yet"
    assert not world.beat(a, "one", {"T": "*"}, fingerprint=7)


_TOPICS = st.dictionaries(st.sampled_from("TU"), st.sampled_from(["*", "a", "b"]), max_size=2)
_STEP = st.tuples(st.integers(0, 3), st.none() | _TOPICS)


@given(st.lists(_STEP))
def test_members_differ_when_they_do(steps: list[tuple[int, dict[str, str] | None]]) -> None:
    agreement = Agreement("g")
    connections = [FakeConnection() for _ in range(4)]
    model: dict[int, dict[str, str]] = {}
    for n, (who, subs) in enumerate(steps):
        if subs is None:
            agreement.gone(connections[who])
            model.pop(who, None)
        else:
            parsed = {t: Subscription.parse(t, text, n) for t, text in subs.items()}
            agreement.state(connections[who], f"c{who}", "CLUSTERING", parsed)
            model[who] = subs
        kinds = {frozenset(subs.items()) for subs in model.values()}
        assert agreement.differs == (len(kinds) > 1)
        agreement.report(n * SILENCE)
        for member in range(4):
            assert agreement.shown(connections[member]) == model.get(member)
