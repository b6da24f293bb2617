"""Resets of a group's offsets: the form, the preview of each queue, the move that was shown."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pyrmq.console import inputs
from pyrmq.console.changes import change, done, form_of
from pyrmq.console.link import admin_of
from pyrmq.console.pages.group_forms import group_of
from pyrmq.console.rendering import link, page
from pyrmq.console.views.cache import forget
from pyrmq.console.views.resets import as_shown, fields, goal, preview
from pyrmq.console.views.summary import summary_of
from pyrmq.errors import PyrmqError


async def form(request: Request) -> Response:
    """Where to; with `?to=` also the preview. Nothing is moved."""
    name = request.path_params["name"]
    admin = await admin_of(request)
    now, _ = await group_of(request)
    asked = {k: request.query_params.get(k, "") for k in ("topic", "to", "time", "broker")}
    wanted, plan, problem = None, None, ""
    if asked["to"]:
        try:
            wanted = goal(asked)
            plan = await preview(admin, name, wanted)
        except PyrmqError as e:
            problem = str(e)
    subscribed = [s.topic for s in now.online.subscriptions] if now.online else []
    return page(
        request,
        "groups/reset.html",
        now=now,
        topics=list(dict.fromkeys([*(t.topic for t in now.topics), *subscribed])),
        asked=asked,
        goal=wanted,
        plan=plan,
        fields=fields(plan) if plan else [],
        problem=problem,
    )


@change("group.reset", about=("group", "topic", "to", "time", "broker"))
async def move(request: Request) -> Response:
    """Moves the queues to the offsets that the preview showed."""
    sent = await form_of(request)
    admin = await admin_of(request)
    name = inputs.text(sent, "group")
    wanted = goal({k: inputs.text(sent, k) for k in ("topic", "to", "time", "broker")})
    plan = as_shown(await preview(admin, name, wanted), [str(v) for v in sent.getlist("queue")])
    outcomes = await admin.offsets.move(plan)
    forget(admin)
    moved = sum(len(part) for part in outcomes.values)
    queues = "queue" if moved == 1 else "queues"
    text, bad = summary_of(
        outcomes, f"Offsets of group {name} are reset in {moved} {queues} of topic {plan.topic}"
    )
    return done(request, text, to=link("/groups/{}", name), bad=bad or bool(plan.failed))


ROUTES = [
    Route("/groups/{name}/reset", form, methods=["GET"]),
    Route("/groups/{name}/reset", move, methods=["POST"]),
]
