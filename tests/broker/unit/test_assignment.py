"""Queues that the broker assigns: each strategy, mode and popShareQueueNum."""

from __future__ import annotations

from collections import Counter

import pytest

from pyrmq.broker.requests.assignment import POP, PULL, Mode, assigned
from pyrmq.model.message import MessageQueue

QUEUES = [MessageQueue("T", broker, q) for broker in ("a", "b") for q in range(4)]


def ids(count: int) -> list[str]:
    return [f"c{n:02}" for n in range(count)]


def shares(strategy: str, mode: Mode, members: int) -> list[list[MessageQueue]]:
    found = [assigned(QUEUES, ids(members), one, strategy, mode) for one in ids(members)]
    return [mine for mine in found if mine is not None]


@pytest.mark.parametrize("strategy", ["AVG", "AVG_BY_CIRCLE"])
@pytest.mark.parametrize("members", [1, 2, 3, 8, 11])
def test_pull_gives_each_queue_to_one_member(strategy: str, members: int) -> None:
    of_all = Counter(q for mine in shares(strategy, Mode(PULL, 0), members) for q in mine)
    assert of_all == Counter(QUEUES)


@pytest.mark.parametrize(("share", "members"), [(0, 3), (-1, 3), (2, 3), (7, 3), (1, 1), (1, 2)])
def test_pop_of_all_is_an_entry_for_each_broker(share: int, members: int) -> None:
    wanted = [MessageQueue("T", "a", -1), MessageQueue("T", "b", -1)]
    assert shares("AVG", Mode(POP, share), members) == [wanted] * members


@pytest.mark.parametrize("strategy", ["AVG", "AVG_BY_CIRCLE"])
def test_members_share_the_queues_of_those_behind_them(strategy: str) -> None:
    alone = shares(strategy, Mode(PULL, 0), 4)
    shared = shares(strategy, Mode(POP, 1), 4)
    for n, mine in enumerate(shared):
        assert mine == alone[n] + alone[(n + 1) % 4]
    assert Counter(q for mine in shared for q in mine) == Counter(dict.fromkeys(QUEUES, 2))


def test_with_more_members_than_queues_each_has_one() -> None:
    found = shares("AVG", Mode(POP, 3), 20)
    assert [len(mine) for mine in found] == [1] * 20
    assert {mine[0] for mine in found} == set(QUEUES)


@pytest.mark.parametrize("mode", [Mode(PULL, 0), Mode(POP, 1)])
def test_strangers(mode: Mode) -> None:
    assert assigned(QUEUES, ids(4), "nobody", "AVG", mode) == []
    assert assigned(QUEUES, ids(4), "c00", "CONFIG", mode) is None
    assert assigned(QUEUES, ids(4), "c00", "", mode) is None
