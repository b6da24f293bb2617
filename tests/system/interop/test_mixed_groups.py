"""Groups of Java, Go and Python members: they share queues, keep orders and take over what others
sent back, while members and brokers come and go; on our brokers and on Apache RocketMQ's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.client import Client
from tests.support.waiting import eventually

from .clusters import Cluster, cluster
from .conftest import BROKERS, built
from .drivers import Driver, Line
from .mixed import Group, Sender, delivered_by_owners, in_order
from .store import peer

MEMBERS = {"java": f"java-{peer.VERSION}", "go": "go", "pyrmq": "pyrmq"}
"""With PYRMQ_PEER the Java members are of that version, as Apache's brokers are."""
DELAYED = "SCHEDULE_TOPIC_XXXX"
LEVELS = 18
CONF = f"messageDelayLevel={' '.join(['1s'] * LEVELS)}\n"
COMMANDS = [
    "consume",
    pytest.param("consume-orderly", marks=pytest.mark.thorough("the same steps, in order")),
]
takes_long = pytest.mark.thorough("waits for clients that look for routes every 30 s")


@pytest.fixture(params=BROKERS)
def start(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Callable[[int], AbstractContextManager[Cluster]]:
    """Starts so many brokers of one kind."""
    if request.param == "apache":
        request.getfixturevalue("home")
    return lambda count: cluster(request.param, tmp_path / "cluster", count, CONF)


def drivers(running: Cluster, *names: str) -> dict[str, Driver]:
    """Of these members, or all."""
    return {
        name: Driver(client, tuple(built(client)), running.namesrv, running.state)
        for name, client in MEMBERS.items()
        if name in (names or MEMBERS)
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_members_come_and_go(
    start: Callable[[int], AbstractContextManager[Cluster]], topic: str, group: str, command: str
) -> None:
    """At every quiet moment each queue has one owner, which alone gets what is sent then."""
    with start(1) as running:
        running.make_topic(topic, 6)
        running.know_group(group, topic)
        with (
            Sender(running, topic) as sender,
            Group(running, drivers(running), topic, group, command) as members,
        ):

            def quiet_moment() -> None:
                sender.rest()
                owners = members.settle()
                indexes = sender.round()
                members.await_all(indexes)
                delivered_by_owners(members.received(), indexes, owners)
                sender.go_on()

            sender.go_on()
            for name in ("java-1", "go-1", "pyrmq-1"):
                members.join(name)
            quiet_moment()
            members.kill("go-1")
            members.join("pyrmq-2")
            quiet_moment()
            members.leave("java-1")
            members.kill("pyrmq-1")
            members.join("go-2")
            quiet_moment()
            sender.rest()
            members.await_all(range(sender.sent))
            if command == "consume-orderly":
                in_order(members.received())


@takes_long
@pytest.mark.parametrize("command", ["consume", "consume-orderly"])
def test_brokers_come_and_go(
    start: Callable[[int], AbstractContextManager[Cluster]], topic: str, group: str, command: str
) -> None:
    """One is killed and comes back, then a third one joins."""
    with start(2) as running:
        running.make_topic(topic, 3)
        running.know_group(group, topic)
        with (
            Sender(running, topic) as sender,
            Group(running, drivers(running), topic, group, command) as members,
        ):
            for name in ("java-1", "go-1", "pyrmq-1"):
                members.join(name)
            sender.go_on()
            members.settle()
            for name in ("broker-b", "broker-a"):
                running.brokers[name].kill()
                running.brokers[name].start()
                sender.rest()
                owners = members.settle(5)
                indexes = sender.round()
                members.await_all(indexes)
                delivered_by_owners(members.received(), indexes, owners)
                sender.go_on()
            running.add("broker-c")
            running.make_topic(topic, 3, "broker-c")
            members.join("pyrmq-2")
            members.kill("pyrmq-1")
            sender.rest()
            owners = members.settle(5)
            indexes = sender.round()
            members.await_all(indexes)
            delivered_by_owners(members.received(), indexes, owners)
            members.leave()
            members.await_all(range(sender.sent))
            if command == "consume-orderly":
                in_order(members.received())


LONG_CHAIN = ("java", "go", "pyrmq", "java", "pyrmq", "go", "java")
"""Each pair of two next to each other, in both directions."""


@pytest.mark.parametrize(
    "chain",
    [
        pytest.param(("pyrmq", "go", "pyrmq"), id="short"),
        pytest.param(LONG_CHAIN, id="all", marks=pytest.mark.thorough("a delay for each pair")),
    ],
)
def test_what_one_sends_back_another_consumes(
    start: Callable[[int], AbstractContextManager[Cluster]],
    topic: str,
    group: str,
    chain: tuple[str, ...],
) -> None:
    """The members of the chain have the group one after the other; all but the last one fail."""
    assert chain != LONG_CHAIN or len(set(pairwise(chain))) == 6
    with start(1) as running:
        running.make_topic(topic, 2)
        running.know_group(group, topic)
        with (
            Sender(running, topic) as sender,
            Group(running, drivers(running), topic, group, "consume") as members,
        ):
            indexes = {str(index) for index in sender.round()}
            for times, name in enumerate(chain):
                member = f"{name}-{times}"
                members.join(member, fail=99 if times < len(chain) - 1 else 0)
                eventually(
                    lambda m=member, n=times: {i for i, t in deliveries(members, m) if t >= n},
                    f"{member} has what was sent back {times} times",
                    until=lambda found: found == indexes,
                )
                await_sent_back(running, (times + 1) * len(indexes), times < len(chain) - 1)
                members.leave(member)
            # A member may leave before it knows that the broker has taken a message back.
            seen: dict[str, set[int]] = defaultdict(set)
            for index, count in deliveries(members):
                seen[index].add(count)
            assert all(counts == set(range(len(counts))) for counts in seen.values())
            came = {index_of(line): line for line in of(members, f"{chain[0]}-0")}
            for line in of(members, member):
                first = came[index_of(line)]
                for field in ("topic", "body", "tags", "keys"):
                    assert line[field] == first[field]
                assert line["properties"]["ORIGIN_MESSAGE_ID"] == first["offsetMsgId"]


def await_sent_back(running: Cluster, count: int, fails: bool) -> None:
    """Until so many messages have been delayed."""
    if fails:
        with Client(running.brokers["broker-a"].address) as client:
            eventually(
                lambda: sum(client.max_offset(DELAYED, level) for level in range(LEVELS)),
                "what failed is sent back",
                until=lambda found: found >= count,
            )


def deliveries(members: Group, member: str | None = None) -> list[tuple[str, int]]:
    """Index and number of retries of each delivery, to one member or to all."""
    return [
        (index_of(line), line["reconsumeTimes"])
        for name, line in members.received()
        if member in (None, name)
    ]


def of(members: Group, member: str) -> list[Line]:
    return [line for name, line in members.received() if name == member]


def index_of(line: Line) -> str:
    index: str = line["properties"]["index"]
    return index


@pytest.mark.thorough("the retries of each client and the dead letters of ours are tested alone")
def test_what_all_fail_on_is_a_dead_letter(
    start: Callable[[int], AbstractContextManager[Cluster]], topic: str, group: str
) -> None:
    """Whichever member had it last: it is delivered as often as the group says, then it is dead."""
    with start(1) as running:
        running.make_topic(topic, 3)
        running.know_group(group, topic)
        with (
            Sender(running, topic) as sender,
            Group(running, drivers(running), topic, group, "consume") as members,
        ):
            for name in ("java-1", "go-1", "pyrmq-1"):
                members.join(name, fail=99, max=1)
            members.settle()
            indexes = sender.round()
            dead = f"%DLQ%{group}"

            def died() -> int:
                with Client(running.brokers["broker-a"].address) as client:
                    return client.max_offset(dead, 0)

            eventually(died, "all are dead", until=lambda count: count >= len(indexes))
            with Client(running.brokers["broker-a"].address) as client:
                records = client.pull_all(dead, 0, 0, died())
            assert sorted(int(r.properties["index"]) for r in records) == list(indexes)
            found = members.received()
            expected = sorted((str(index), times) for index in indexes for times in (0, 1))
            assert sorted(deliveries(members)) == expected
            assert {name for name, line in found if line["reconsumeTimes"] == 0} == {
                "java-1", "go-1", "pyrmq-1",
            }  # fmt: skip
