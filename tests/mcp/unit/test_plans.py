"""Plans of changes: how long they live, and what they are bound to."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pyrmq.errors import ClientError
from pyrmq.mcp.plans import ASKED_LIFE, LIFE, MOST, Plans
from pyrmq.mcp.tool import Prepared


async def _nothing() -> Any:
    return None


PREPARED = Prepared("do it", None, _nothing)


async def test_a_plan_is_void_after_its_time(autojump_clock: MockClock) -> None:
    plans = Plans()
    plan = plans.add("tool", {"a": 1}, PREPARED)
    await trio.sleep(LIFE - 1)
    assert plans.find(plan.token, "tool", {"a": 1}) is plan
    await trio.sleep(2)
    with pytest.raises(ClientError, match="no plan"):
        plans.find(plan.token, "tool", {"a": 1})


async def test_a_question_gives_the_user_time(autojump_clock: MockClock) -> None:
    plans = Plans()
    plan = plans.add("tool", {}, PREPARED)
    await trio.sleep(LIFE - 1)
    assert plans.ask(plan) != plans.ask(plan)
    await trio.sleep(ASKED_LIFE - 1)
    assert plans.find(plan.token, "tool", {}) is plan
    await trio.sleep(2)
    with pytest.raises(ClientError, match="no plan"):
        plans.find(plan.token, "tool", {})


@pytest.mark.parametrize("other", [("another", {"a": 1}), ("tool", {"a": 2}), ("tool", {})])
async def test_a_plan_that_is_used_for_something_else_is_void(other: Any) -> None:
    plans = Plans()
    plan = plans.add("tool", {"a": 1}, PREPARED)
    with pytest.raises(ClientError, match="no plan"):
        plans.find(plan.token, *other)
    with pytest.raises(ClientError, match="no plan"):
        plans.find(plan.token, "tool", {"a": 1})


async def test_a_plan_is_taken_once_and_few_wait() -> None:
    plans = Plans()
    first = plans.add("tool", {}, PREPARED)
    plans.take(first)
    with pytest.raises(ClientError, match="no plan"):
        plans.take(first)
    old = plans.add("tool", {}, PREPARED)
    for _ in range(MOST):
        plans.add("tool", {}, PREPARED)
    with pytest.raises(ClientError, match="no plan"):
        plans.find(old.token, "tool", {})
