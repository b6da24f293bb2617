"""The forms that create, change and delete topics."""

from __future__ import annotations

from typing import Any

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pyrmq.console import inputs
from pyrmq.console.changes import change, done_at, form_of, typed
from pyrmq.console.inputs import choices
from pyrmq.console.link import admin_of
from pyrmq.console.not_there import NotThereError
from pyrmq.console.rendering import link, page
from pyrmq.console.views.cache import forget
from pyrmq.console.views.one_topic import TopicDetails, topic_details
from pyrmq.console.views.topics import perm_text, topic_list
from pyrmq.errors import ClientError, TopicNotExistError
from pyrmq.model.names import check_topic
from pyrmq.model.topic import MAX_QUEUES, MESSAGE_TYPE, MESSAGE_TYPES

PERMS = (("6", "read and write"), ("4", "read only"), ("2", "write only"), ("0", "neither"))


async def topic_of(request: Request) -> TopicDetails:
    """The topic that a page is about. NotThereError."""
    name = request.path_params["name"]
    try:
        return await topic_details(await admin_of(request), name)
    except TopicNotExistError as e:
        # A hint of this very error names brokers that are missing, and may have the topic.
        missing = [str(e.hint)] if "hint" in vars(e) else []
        text = "; ".join([f"No name server knows topic {name}", *missing]) + "."
        raise NotThereError(text, "No such topic") from e


async def clusters_of(request: Request) -> list[str]:
    info = await (await admin_of(request)).link.cluster_info()
    return sorted(info.clusters | {b.cluster for b in info.brokers.values()})


async def create_form(request: Request) -> Response:
    return page(
        request,
        "topics/create.html",
        clusters=choices(await clusters_of(request)),
        perms=PERMS[:3],
        types=choices(MESSAGE_TYPES),
    )


@change("topic.create", about=("topic", "cluster"))
async def create(request: Request) -> Response:
    form = await form_of(request)
    admin = await admin_of(request)
    name, cluster = inputs.text(form, "topic"), inputs.text(form, "cluster")
    check_topic(name)
    try:
        at = await admin.topics.clusters(name)
    except TopicNotExistError:
        at = []
    if cluster in at:
        raise ClientError(f"topic {name} is already in cluster {cluster}: change it on its page")
    outcomes = await admin.topics.change(
        name, cluster=cluster, attributes=_attributes(form), **_numbers(form)
    )
    forget(admin)
    return done_at(request, outcomes, f"Topic {name} is created", to=link("/topics/{}", name))


def _numbers(form: FormData) -> dict[str, Any]:
    """What a form says of the numbers of a topic; those that it leaves empty are not there."""
    found = {
        "read_queue_nums": inputs.number(form, "read_queues", most=MAX_QUEUES),
        "write_queue_nums": inputs.number(form, "write_queues", most=MAX_QUEUES),
        "perm": inputs.number(form, "perm", most=7),
    }
    return {name: value for name, value in found.items() if value is not None}


def _attributes(form: FormData) -> str:
    """What a form says of attributes, as Admin takes it: `+message.type=FIFO,-queue.type`."""
    kind = inputs.text(form, "message_type")
    if kind and kind not in MESSAGE_TYPES:
        raise ClientError(f"the message type {kind[:32]!r} is none of {', '.join(MESSAGE_TYPES)}")
    more = inputs.text(form, "attributes", inputs.ATTRIBUTES)
    return ",".join(part for part in (f"+{MESSAGE_TYPE}={kind}" if kind else "", more) if part)


async def change_form(request: Request) -> Response:
    found = await topic_of(request)
    configs = [at.config for at in found.at if at.config is not None]
    return page(
        request,
        "topics/change.html",
        topic=found,
        reads=_now([c.read_queue_nums for c in configs]),
        writes=_now([c.write_queue_nums for c in configs]),
        perm=_now([perm_text(c.perm) for c in configs]),
        type=_now([c.message_type for c in configs]),
        clusters=choices(found.clusters),
        perms=list(PERMS),
        types=choices(MESSAGE_TYPES),
    )


def _now(values: list[Any]) -> str:
    """What stands in the field of a setting: its value, or all of them if brokers differ."""
    return ", ".join(map(str, dict.fromkeys(values)))


@change("topic.change", about=("topic", "cluster"))
async def changed(request: Request) -> Response:
    form = await form_of(request)
    admin = await admin_of(request)
    name, cluster = inputs.text(form, "topic"), inputs.text(form, "cluster")
    named = _numbers(form)
    attributes = _attributes(form)
    if not named and not attributes:
        raise ClientError("nothing is to be changed: all fields are empty")
    if cluster not in await admin.topics.clusters(name):
        raise ClientError(f"topic {name} is not in cluster {cluster}")
    outcomes = await admin.topics.change(
        name, cluster=cluster, attributes=attributes, force="force" in form, **named
    )
    forget(admin)
    return done_at(request, outcomes, f"Topic {name} is changed", to=link("/topics/{}", name))


async def delete_form(request: Request) -> Response:
    """`?cluster=`: from which; needed if the topic is in several."""
    name = request.path_params["name"]
    admin = await admin_of(request)
    found = await topic_of(request)
    cluster = request.query_params.get("cluster", "")
    if cluster not in found.clusters:
        cluster = found.clusters[0] if len(found.clusters) == 1 else ""
    at = await admin.topics.deletion(name, cluster) if cluster else None
    waiting = [c for c in found.groups if (c.lag or 0) - (c.gone or 0) > 0]
    return page(
        request,
        "topics/delete.html",
        topic=found,
        cluster=cluster,
        at=at,
        waiting=waiting,
        unread=sum((c.lag or 0) - (c.gone or 0) for c in waiting),
    )


@change("topic.delete", about=("topic", "cluster"))
async def delete(request: Request) -> Response:
    form = await form_of(request)
    admin = await admin_of(request)
    name, cluster = inputs.text(form, "topic"), inputs.text(form, "cluster")
    typed(form, name)
    if all(row.name != name for row in (await topic_list(admin)).rows):
        raise ClientError(f"there is no topic {name} any more")
    outcomes = await admin.topics.delete(name, cluster)
    forget(admin)
    return done_at(request, outcomes, f"Topic {name} is deleted", to="/topics")


ROUTES = [
    Route("/topics/~/create", create_form, methods=["GET"]),
    Route("/topics/~/create", create, methods=["POST"]),
    Route("/topics/{name}/change", change_form, methods=["GET"]),
    Route("/topics/{name}/change", changed, methods=["POST"]),
    Route("/topics/{name}/delete", delete_form, methods=["GET"]),
    Route("/topics/{name}/delete", delete, methods=["POST"]),
]
