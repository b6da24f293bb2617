"""Sharing queues: the published tables, and that nothing is lost or doubled."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrmq.client.consumer.allocate import (
    Configured,
    ConsistentHash,
    MachineRoom,
    MachineRoomNearby,
    Strategy,
    average,
    average_by_circle,
    queue_text,
    ring_hash,
)
from pyrmq.errors import ClientError
from pyrmq.model.message import MessageQueue


def room_of_queue(queue: MessageQueue) -> str:
    return queue.broker_name[0]


def room_of_client(client_id: str) -> str:
    return client_id[0]


EVERY = [
    average,
    average_by_circle,
    ConsistentHash(),
    MachineRoom(["b"]),
    MachineRoomNearby(room_of_queue, room_of_client),
]
"""Strategies that look at the list of ids."""


def queues(n: int) -> list[MessageQueue]:
    return [MessageQueue("T", "b", i) for i in range(n)]


def split(strategy: Strategy, n: int, m: int) -> list[list[int]]:
    """Queue ids by consumer."""
    ids = [f"c{i:03}" for i in range(m)]
    return [[q.queue_id for q in strategy(queues(n), ids, own)] for own in ids]


@pytest.mark.parametrize(
    ("n", "m", "expected"),
    [
        (8, 3, [[0, 1, 2], [3, 4, 5], [6, 7]]),
        (2, 3, [[0], [1], []]),
        (10, 4, [[0, 1, 2], [3, 4, 5], [6, 7], [8, 9]]),
        (4, 1, [[0, 1, 2, 3]]),
        (4, 4, [[0], [1], [2], [3]]),
    ],
)
def test_average(n: int, m: int, expected: list[list[int]]) -> None:
    assert split(average, n, m) == expected


@pytest.mark.parametrize(
    ("n", "m", "expected"),
    [(8, 3, [[0, 3, 6], [1, 4, 7], [2, 5]]), (2, 3, [[0], [1], []]), (3, 1, [[0, 1, 2]])],
)
def test_circle(n: int, m: int, expected: list[list[int]]) -> None:
    assert split(average_by_circle, n, m) == expected


@pytest.mark.parametrize("strategy", [average, average_by_circle])
@given(n=st.integers(0, 60), m=st.integers(1, 20))
def test_every_queue_has_one_owner(strategy: Strategy, n: int, m: int) -> None:
    parts = split(strategy, n, m)
    assert sorted(q for part in parts for q in part) == list(range(n))
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1
    assert all(part == sorted(part) for part in parts)


@given(n=st.integers(1, 60), m=st.integers(1, 20))
def test_average_is_javas_formula(n: int, m: int) -> None:
    for i, part in enumerate(split(average, n, m)):
        rest = n % m
        size = 1 if n <= m else n // m + (1 if rest > 0 and i < rest else 0)
        start = i * size if rest > 0 and i < rest else i * size + rest
        assert part == list(range(n))[start : start + max(min(size, n - start), 0)]


@pytest.mark.parametrize("strategy", EVERY)
def test_who_is_not_in_the_list_gets_nothing(strategy: Strategy) -> None:
    assert strategy(queues(8), ["a", "b"], "c") == []
    assert strategy(queues(8), [], "c") == []
    assert strategy([], ["c"], "c") == []


# CONSISTENT_HASH.


def test_places_on_the_ring() -> None:
    assert ring_hash("c0-0") == 2316876094
    text = queue_text(MessageQueue("T", "b", 0))
    assert text == "MessageQueue [topic=T, brokerName=b, queueId=0]"
    assert ring_hash(text) == 562732085


def test_consistent_hash() -> None:
    strategy = ConsistentHash()
    parts = [
        [q.queue_id for q in strategy(queues(8), ["c0", "c1", "c2"], f"c{i}")] for i in (0, 1, 2)
    ]
    assert parts == [[3, 4, 6], [1, 2, 5], [0, 7]]


@given(n=st.integers(0, 40), m=st.integers(2, 8), gone=st.integers(0, 7))
def test_only_the_queues_of_who_leaves_change_hands(n: int, m: int, gone: int) -> None:
    ids = [f"c{i}" for i in range(m)]
    rest = [i for i in ids if i != f"c{gone % m}"]
    strategy = ConsistentHash()
    before = {i: set(strategy(queues(n), ids, i)) for i in ids}
    after = {i: set(strategy(queues(n), rest, i)) for i in rest}
    assert set().union(*after.values()) == set(queues(n))
    assert all(before[i] <= after[i] for i in rest)


@pytest.mark.parametrize("nodes", [0, -1, 1.5, "10", True, 1001])
def test_virtual_nodes_are_a_number(nodes: object) -> None:
    with pytest.raises(ClientError, match=r"virtual_nodes is .* at least 1"):
        ConsistentHash(nodes)  # type: ignore[arg-type]


# CONFIG.


def test_configured() -> None:
    own = [MessageQueue("T", "b", 1), MessageQueue("T", "b", 9), MessageQueue("U", "b", 0)]
    strategy = Configured(own)
    assert strategy(queues(4), ["x", "y"], "nobody") == [MessageQueue("T", "b", 1)]
    assert strategy([MessageQueue("U", "b", 0)], ["x"], "x") == [MessageQueue("U", "b", 0)]
    retry = [MessageQueue("%RETRY%g", "b", 0)]
    assert strategy(retry, ["x", "y"], "x") == retry, "what came back is read by somebody"
    assert strategy(retry, ["x", "y"], "y") == []
    with pytest.raises(ClientError, match="a MessageQueue is needed"):
        Configured(["T-0"])  # type: ignore[list-item]


# MACHINE_ROOM.


def rooms(*names: str, count: int) -> list[MessageQueue]:
    return [MessageQueue("T", name, n) for name in names for n in range(count)]


def test_machine_room() -> None:
    ids = ["c0", "c1", "c2"]
    eight = rooms("r1@b", count=8)
    strategy = MachineRoom(["r1"])
    parts = [[q.queue_id for q in strategy(eight, ids, own)] for own in ids]
    assert parts == [[0, 1, 6], [2, 3, 7], [4, 5]]


def test_machine_room_leaves_others_out() -> None:
    some = rooms("r1@b", "r2@b", "r3@b", "r1", "r1@b@c", count=1)
    assert MachineRoom({"r1", "r2"})(some, ["c"], "c") == some[:2]


@pytest.mark.parametrize("wrong", ["r1", [], [""], [5]])
def test_rooms_are_names(wrong: list[str]) -> None:
    with pytest.raises(ClientError, match="rooms"):
        MachineRoom(wrong)


# MACHINE_ROOM_NEARBY.

IN_A = [MessageQueue("T", "a", n) for n in range(4)]
IN_B = [MessageQueue("T", "b", n) for n in range(2)]


def test_rooms_without_members_are_shared_by_all() -> None:
    strategy = MachineRoomNearby(room_of_queue, room_of_client)
    ids = ["a1x", "a2x"]
    assert strategy(IN_A + IN_B, ids, "a1x") == [*IN_A[:2], IN_B[0]]
    assert strategy(IN_A + IN_B, ids, "a2x") == [*IN_A[2:], IN_B[1]]


def test_each_room_consumes_its_own() -> None:
    strategy = MachineRoomNearby(room_of_queue, room_of_client, average_by_circle)
    ids = ["a1", "a2", "b1", "c1"]
    parts = [strategy(IN_A + IN_B, ids, own) for own in ids]
    assert parts == [IN_A[::2], IN_A[1::2], IN_B, []]


def test_what_is_in_no_room_is_an_error() -> None:
    nowhere = MachineRoomNearby(lambda queue: "", room_of_client)
    with pytest.raises(ClientError, match="in no machine room"):
        nowhere(IN_A, ["a"], "a")
    wrong = MachineRoomNearby(room_of_queue, lambda client: None)  # type: ignore[arg-type,return-value]
    with pytest.raises(ClientError, match="in no machine room"):
        wrong(IN_A, ["a"], "a")
    with pytest.raises(ClientError, match="room_of_client is 5; it must be a function"):
        MachineRoomNearby(room_of_queue, 5)  # type: ignore[arg-type]


@given(st.lists(st.sampled_from("abcd")), st.lists(st.sampled_from("abcd"), min_size=1))
def test_nearby_gives_every_queue_one_owner(brokers: list[str], members: list[str]) -> None:
    all_queues = sorted(MessageQueue("T", b, n) for n, b in enumerate(brokers))
    ids = sorted(f"{room}{n}" for n, room in enumerate(members))
    strategy = MachineRoomNearby(room_of_queue, room_of_client)
    assert sorted(q for own in ids for q in strategy(all_queues, ids, own)) == all_queues
