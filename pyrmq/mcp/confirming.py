"""How a change is confirmed: planned by one call, done by another, and the user is asked.

The first call looks into the change and gives a plan. The second call has the same arguments and
the plan's name as `confirm`. If the client can ask its user (elicitation), the user decides then:
a client of protocol 2026-07-28 gets the question as the answer of the call and calls again, an
older one gets a request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import mcp_types as types
import trio
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError

from pyrmq.admin.api import Admin
from pyrmq.admin.outcome import Outcomes
from pyrmq.errors import ClientError, PyrmqError
from pyrmq.escape import escape
from pyrmq.mcp import registered
from pyrmq.mcp.answers import refusal, result
from pyrmq.mcp.arguments import Argument, read_all
from pyrmq.mcp.audit import Audit
from pyrmq.mcp.plans import ASKED_LIFE, LIFE, Plan, Plans
from pyrmq.mcp.shown import Cutting, problems
from pyrmq.mcp.tool import ChangeTool, Prepared

CONFIRM = Argument(
    "confirm",
    "The plan from a call without it, which changes nothing. Only with it something changes.",
    longest=64,
)
QUESTION = "approve"
"""The name of the question, and of its answer."""
MAX_PREVIEW = 1500
"""Bytes of a preview in the question."""
Context = ServerRequestContext[Any, Any]
Bounded = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]


class TookTooLongError(ClientError):
    """A step was given up."""


class Confirming:
    """The changes of one client. `bounded` runs a step of one, for a limited time; then
    it raises TookTooLongError."""

    def __init__(self, admin: Admin, audit: Audit, bounded: Bounded) -> None:
        self._admin = admin
        self._audit = audit
        self._bounded = bounded
        self._plans = Plans()

    async def call(
        self, context: Context, tool: ChangeTool, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Plans a change, or does one that is confirmed. PyrmqError."""
        asked = read_all((*tool.arguments, CONFIRM), params.arguments)
        token = asked.pop(CONFIRM.name)
        client = _client_of(context)
        if token is None:
            return await self._plan(tool, asked, client)
        plan = self._plans.find(token, tool.name, asked)
        if not asks_users(context):
            self._plans.take(plan)
            return await self._do(plan, client)
        if context.session.can_send_request:
            self._plans.take(plan)
            self._audit.note("asked", tool.name, asked, client)
            answer = await _answer(context, plan.prepared)
        else:
            answered = params.input_responses or {}
            if not plan.question or params.request_state != plan.question:
                self._audit.note("asked", tool.name, asked, client)
                return types.InputRequiredResult(
                    input_requests={QUESTION: types.ElicitRequest(params=_question(plan.prepared))},
                    request_state=self._plans.ask(plan),
                )
            self._plans.take(plan)
            found = answered.get(QUESTION)
            answer = found if isinstance(found, types.ElicitResult) else None
        if answer is None or answer.action != "accept" or _approved(answer) is not True:
            said = "no answer" if answer is None else answer.action
            self._audit.note("declined", tool.name, asked, client, said)
            return refusal(f"nothing was changed: the user did not approve it ({said})")
        return await self._do(plan, client)

    async def _plan(
        self, tool: ChangeTool, asked: Mapping[str, Any], client: str
    ) -> types.CallToolResult:
        async def prepare() -> Prepared:
            await registered.check(self._admin, tool.arguments, asked)
            return await tool.prepare(self._admin, asked)

        prepared: Prepared = await self._bounded(prepare)
        plan = self._plans.add(tool.name, asked, prepared)
        self._audit.note("planned", tool.name, asked, client)
        return result(
            {"would": prepared.says, "preview": prepared.preview},
            "Nothing was changed. Show the user what would be done. If the user agrees, call "
            f"{tool.name} again with exactly the same arguments and confirm: {plan.token!r}, "
            f"within {LIFE:.0f} seconds.",
        )

    async def _do(self, plan: Plan, client: str) -> types.CallToolResult:
        step, said = "interrupted", "the outcome is not known"
        try:
            found = await self._bounded(plan.prepared.work)
            if isinstance(found, Outcomes):
                done = {"done": [o.target for o in found.done], **problems(found.failed)}
                step = "done" if not found.failed else "partly" if found.done else "failed"
                said = "; ".join(o.problem for o in found.failed)
            else:
                done, step, said = found, "done", ""
        except TookTooLongError as e:
            said = str(e)
            raise ClientError(
                f"{e}. A part of it may be done: look before you try it again"
            ) from None
        except PyrmqError as e:
            step, said = "failed", str(e)
            raise
        finally:
            self._audit.note(step, plan.tool, plan.arguments, client, said)
        if step == "failed":
            return refusal(f"it failed: {said}")
        words = {"done": "Done.", "partly": "Only a part was done: see `failed`."}
        return result(done, words[step])


def asks_users(context: Context) -> bool:
    """Whether the client says that it can ask its user by a form."""
    found = context.session.client_capabilities
    elicits = found.elicitation if found else None
    return elicits is not None and (elicits.form is not None or elicits.url is None)


def _client_of(context: Context) -> str:
    known = context.session.client_params
    return f"{known.client_info.name} {known.client_info.version}" if known else "unknown client"


def _question(prepared: Prepared) -> types.ElicitRequestFormParams:
    cutting = Cutting()
    preview = cutting.fit(cutting.plain(prepared.preview), MAX_PREVIEW)
    cut = f"\n({'; '.join(cutting.notes)})" if cutting.notes else ""
    return types.ElicitRequestFormParams(
        message=f"{escape(prepared.says)}\n{preview}{cut}",
        requested_schema={
            "type": "object",
            "properties": {QUESTION: {"type": "boolean", "title": "Do it", "default": False}},
            "required": [QUESTION],
        },
    )


async def _answer(context: Context, prepared: Prepared) -> types.ElicitResult | None:
    """What the user says, None if nothing came in time."""
    question = _question(prepared)
    with trio.move_on_after(ASKED_LIFE):
        try:
            return await context.session.elicit_form(
                question.message, question.requested_schema, context.request_id
            )
        except MCPError as e:
            raise ClientError(f"nothing was changed: the user could not be asked ({e})") from None
    return None


def _approved(answer: types.ElicitResult) -> object:
    return (answer.content or {}).get(QUESTION)
