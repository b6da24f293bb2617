"""What members run, page by page."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pyrmq.admin.connections import Connection
from pyrmq.admin.running_info import RunningInfo
from pyrmq.console.views.members import MOST_ASKED, SECONDS, member, running
from pyrmq.errors import ConnectError, NotFoundError


def info(client: str, topic: str = "t", **row: object) -> RunningInfo:
    key = (("brokerName", "b"), ("queueId", 1), ("topic", topic))
    return RunningInfo.from_json(
        client,
        {
            "properties": {
                "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
                "PROP_CONSUMER_START_TIMESTAMP": "1",
            },
            "subscriptionSet": [{"topic": topic, "subString": "*"}],
            "mqTable": {key: row},
            "statusTable": {topic: {"consumeFailedMsgs": 3}},
        },
    )


class Groups:
    """Members with the names 00, 01, …; the odd ones do not answer, `hang` never does."""

    def __init__(self, many: int) -> None:
        self.connections_ = [Connection(f"{n:02}", "h:1", "JAVA", 0) for n in range(many)]
        self.hang = ""

    async def connections(self, group: str) -> Any:
        return SimpleNamespace(connections=self.connections_)

    async def running_info(self, group: str, client: str, *, stacks: bool) -> RunningInfo:
        if client == self.hang:
            await trio.sleep_forever()
        if int(client) % 2:
            raise ConnectError("away")
        return info(client, cachedMsgCount=5, lastConsumeTimestamp=1)


def admin(groups: Groups) -> Any:
    return SimpleNamespace(groups=groups)


async def test_members_come_in_parts() -> None:
    groups = Groups(45)
    first = await running(admin(groups), "g", groups.connections_)
    assert (first.first, first.last, first.count) == (0, MOST_ASKED, 45)
    assert [m.error for m in first.members[:2]] == ["", "away"]
    assert first.members[0].cached == 5
    assert first.members[0].failing == 3
    assert [p.client_id for p in first.problems][:2] == ["00", "02"]
    last = await running(admin(groups), "g", groups.connections_, 40)
    assert [m.connection.client_id for m in last.members] == ["40", "41", "42", "43", "44"]
    far = await running(admin(groups), "g", groups.connections_, 10**18)
    assert (far.first, far.last) == (44, 45)
    none = await running(admin(groups), "g", [], 5)
    assert (none.members, none.first, none.count, none.agree) == ([], 0, 0, True)


async def test_one_that_hangs_does_not_hide_the_others(autojump_clock: MockClock) -> None:
    groups = Groups(3)
    groups.hang = "02"
    before = trio.current_time()
    found = await running(admin(groups), "g", groups.connections_)
    assert trio.current_time() - before == pytest.approx(SECONDS)
    assert [m.error for m in found.members] == ["", "away", "no answer in time"]


async def test_members_that_differ() -> None:
    groups = Groups(3)

    async def one(group: str, client: str, *, stacks: bool) -> RunningInfo:
        return info(client, "u" if client == "02" else "t")

    groups.running_info = one  # type: ignore[method-assign]
    found = await running(admin(groups), "g", groups.connections_)
    assert not found.agree
    assert [(d.topic, d.wanted) for d in found.differences] == [
        ("t", {"": ["02"], "*": ["00", "01"]}),
        ("u", {"": ["00", "01"], "*": ["02"]}),
    ]


async def test_one_member() -> None:
    groups = Groups(2)
    assert (await member(admin(groups), "g", "00", stacks=True)).info is not None
    assert (await member(admin(groups), "g", "01", stacks=True)).error == "away"
    with pytest.raises(NotFoundError):
        await member(admin(groups), "g", "07", stacks=False)
