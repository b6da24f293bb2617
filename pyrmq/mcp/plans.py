"""Changes that were planned and wait for their confirmation."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import trio

from pyrmq.errors import ClientError
from pyrmq.mcp.tool import Prepared

LIFE = 120.0
"""Seconds until a plan is void."""
ASKED_LIFE = 300.0
"""Seconds for the user's answer, from the question on."""
MOST = 32
"""Plans that wait; of more the oldest is void."""
NOT_VALID = (
    "confirm names no plan of this tool with these arguments: plans are void after "
    f"{LIFE:.0f} seconds, and after one use. Call the tool without confirm, look at the new plan, "
    "then call it again with exactly the same arguments and the new plan"
)


@dataclass(slots=True)
class Plan:
    """One change, bound to its tool and its arguments. `question`: names the question that the user
    was asked; empty if none was asked yet."""

    token: str
    tool: str
    arguments: Mapping[str, Any]
    prepared: Prepared
    until: float
    question: str = ""


class Plans:
    """The plans of one client."""

    def __init__(self) -> None:
        self._plans: dict[str, Plan] = {}

    def add(self, tool: str, arguments: Mapping[str, Any], prepared: Prepared) -> Plan:
        self._forget_old()
        while len(self._plans) >= MOST:
            del self._plans[next(iter(self._plans))]
        until = trio.current_time() + LIFE
        plan = Plan(secrets.token_hex(8), tool, dict(arguments), prepared, until)
        self._plans[plan.token] = plan
        return plan

    def find(self, token: str, tool: str, arguments: Mapping[str, Any]) -> Plan:
        """The plan of a token. Raises ClientError if it is void, or was made for something else;
        such a plan is void from then on."""
        self._forget_old()
        plan = self._plans.get(token)
        if plan is None:
            raise ClientError(NOT_VALID)
        if plan.tool != tool or plan.arguments != dict(arguments):
            del self._plans[token]
            raise ClientError(NOT_VALID)
        return plan

    def take(self, plan: Plan) -> None:
        """Makes a plan void. Raises ClientError if it is void already."""
        if self._plans.pop(plan.token, None) is not plan:
            raise ClientError(NOT_VALID)

    def ask(self, plan: Plan) -> str:
        """A name for a question to the user about a plan, which waits for the answer."""
        plan.question = secrets.token_hex(8)
        plan.until = trio.current_time() + ASKED_LIFE
        return plan.question

    def _forget_old(self) -> None:
        now = trio.current_time()
        for token in [t for t, plan in self._plans.items() if plan.until < now]:
            del self._plans[token]
