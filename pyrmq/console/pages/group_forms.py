"""The forms that create, change, pause and delete groups."""

from __future__ import annotations

from typing import Any

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pyrmq.admin.api import Admin
from pyrmq.admin.groups import attributes_of
from pyrmq.admin.outcome import Outcomes, merged
from pyrmq.console import inputs
from pyrmq.console.changes import change, done, done_at, form_of, typed
from pyrmq.console.inputs import choices
from pyrmq.console.link import admin_of
from pyrmq.console.not_there import NotThereError
from pyrmq.console.pages.topic_forms import clusters_of
from pyrmq.console.rendering import link, page
from pyrmq.console.views.cache import forget
from pyrmq.console.views.groups import group_names
from pyrmq.console.views.one_group import GroupNow, GroupSettings, group_page, group_settings
from pyrmq.console.views.summary import summary_of
from pyrmq.errors import ClientError, InvalidParameterError, NotFoundError, PyrmqError
from pyrmq.model.names import check_consumer_group
from pyrmq.model.topic import MAX_QUEUES

FLAGS = (
    ("consume_enable", "May consume"),
    ("consume_broadcast_enable", "May be broadcast to"),
    ("consume_message_orderly", "Consumes in order"),
    ("consume_from_min_enable", "May start at the first offset"),
    ("notify_consumer_ids_changed_enable", "Members are told of others"),
)
"""Settings that are on or off, with what the forms call them."""
NUMBERS = {"retry_queue_nums": MAX_QUEUES, "retry_max_times": 1 << 30}


def unknown(error: PyrmqError, title: str) -> NotThereError:
    return NotThereError(f"{str(error)[:1].upper()}{str(error)[1:]}.", title)


async def group_of(request: Request) -> tuple[GroupNow, GroupSettings]:
    """The group that a page is about. NotThereError."""
    try:
        return await group_page(await admin_of(request), request.path_params["name"])
    except (InvalidParameterError, NotFoundError) as e:
        raise unknown(e, "No such group") from e


def _members(form: FormData) -> dict[str, Any]:
    """What a form says of the configuration of a group. ClientError."""
    found: dict[str, Any] = {}
    for name, _ in FLAGS:
        value = inputs.text(form, name)
        if value not in ("", "yes", "no"):
            raise ClientError(f"{name} is yes, no or empty")
        if value:
            found[name] = value == "yes"
    for name, most in NUMBERS.items():
        number = inputs.number(form, name, most=most)
        if number is not None:
            found[name] = number
    attributes = attributes_of(inputs.text(form, "attributes", inputs.ATTRIBUTES))
    return {**found, "attributes": attributes} if attributes else found


async def create_form(request: Request) -> Response:
    clusters = choices(await clusters_of(request))
    return page(request, "groups/create.html", clusters=clusters, flags=FLAGS)


@change("group.create", about=("group", "cluster"))
async def create(request: Request) -> Response:
    form = await form_of(request)
    admin = await admin_of(request)
    name, cluster = inputs.text(form, "group"), inputs.text(form, "cluster")
    check_consumer_group(name)
    known = await group_settings(admin, name)
    if cluster in known.clusters:
        raise ClientError(f"group {name} is already in cluster {cluster}: change it on its page")
    outcomes = await admin.groups.change(name, _members(form), cluster=cluster)
    forget(admin)
    return done_at(request, outcomes, f"Group {name} is created", to=link("/groups/{}", name))


async def _page(request: Request, template: str, **more: Any) -> Response:
    """A page about a group that is there."""
    now, settings = await group_of(request)
    clusters = settings.clusters or await clusters_of(request)
    return page(request, template, now=now, config=settings, clusters=choices(clusters), **more)


async def change_form(request: Request) -> Response:
    return await _page(request, "groups/change.html", flags=FLAGS)


@change("group.change", about=("group", "cluster"))
async def changed(request: Request) -> Response:
    form = await form_of(request)
    admin = await admin_of(request)
    name, cluster = inputs.text(form, "group"), inputs.text(form, "cluster")
    members = _members(form)
    if not members:
        raise ClientError("nothing is to be changed: all fields are empty")
    await _check_there(admin, name)
    outcomes = await admin.groups.change(name, members, cluster=cluster)
    forget(admin)
    return done_at(request, outcomes, f"Group {name} is changed", to=link("/groups/{}", name))


async def _check_there(admin: Admin, name: str) -> None:
    """ClientError for a group that nobody has: a change would create it."""
    if name not in await group_names(admin):
        raise ClientError(f"there is no group {name} any more")


async def pause_form(request: Request) -> Response:
    """`?to=pause` or `?to=resume`."""
    pauses = request.query_params.get("to") != "resume"
    return await _page(request, "groups/pause.html", pauses=pauses)


@change("group.pause", about=("group", "to"))
async def pause(request: Request) -> Response:
    """Whether brokers let the group consume: consumeEnable, in all clusters that have it."""
    form = await form_of(request)
    admin = await admin_of(request)
    name, to = inputs.text(form, "group"), inputs.text(form, "to")
    if to not in ("pause", "resume"):
        raise ClientError("say pause or resume")
    settings = await group_settings(admin, name)
    if not settings.clusters:
        raise ClientError(f"no broker has group {name}")
    parts: list[Outcomes[None]] = [
        await admin.groups.change(name, {"consume_enable": to == "resume"}, cluster=cluster)
        for cluster in settings.clusters
    ]
    forget(admin)
    verb = f"Group {name} is paused" if to == "pause" else f"Group {name} may consume again"
    return done_at(request, merged(parts), verb, to=link("/groups/{}", name))


async def delete_form(request: Request) -> Response:
    return await _page(request, "groups/delete.html")


@change("group.delete", about=("group", "cluster", "offsets", "topics"))
async def delete(request: Request) -> Response:
    form = await form_of(request)
    admin = await admin_of(request)
    name, cluster = inputs.text(form, "group"), inputs.text(form, "cluster")
    typed(form, name)
    await _check_there(admin, name)
    outcomes = await admin.groups.delete(name, remove_offsets="offsets" in form, cluster=cluster)
    text, bad = summary_of(outcomes, f"Group {name} is deleted")
    if not bad and any(at.cluster == cluster for at in (await group_settings(admin, name)).at):
        bad = True
        text = (
            f"Group {name} is still there: its members made it again, or the broker is one of "
            "Apache's that delete a group only with its offsets."
        )
    if "topics" in form and not bad:
        failed = await admin.groups.delete_topics(name, cluster)
        if failed:
            bad = True
            text += f" Its retry and dead-letter topics are not: {failed[0].problem}"
    forget(admin)
    return done(request, text, to="/groups", bad=bad)


ROUTES = [
    Route("/groups/~/create", create_form, methods=["GET"]),
    Route("/groups/~/create", create, methods=["POST"]),
    Route("/groups/{name}/change", change_form, methods=["GET"]),
    Route("/groups/{name}/change", changed, methods=["POST"]),
    Route("/groups/{name}/pause", pause_form, methods=["GET"]),
    Route("/groups/{name}/pause", pause, methods=["POST"]),
    Route("/groups/{name}/delete", delete_form, methods=["GET"]),
    Route("/groups/{name}/delete", delete, methods=["POST"]),
]
