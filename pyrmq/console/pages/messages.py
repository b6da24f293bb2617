"""The room of messages: find them, look at one, resend it, have one consumer take it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import trio
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from pyrmq.admin.api import Admin
from pyrmq.console import audit, inputs
from pyrmq.console.changes import change, done, form_of
from pyrmq.console.downloads import download
from pyrmq.console.link import admin_of
from pyrmq.console.messages import acting, stored
from pyrmq.console.messages.body import preview_of
from pyrmq.console.messages.listing import Asked, Listing, listed
from pyrmq.console.messages.looking import looking
from pyrmq.console.messages.names import suggested, topic_names
from pyrmq.console.messages.one import as_data, view_message
from pyrmq.console.rendering import fragment, page
from pyrmq.console.room import Room
from pyrmq.errors import ClientError, ProtocolError, PyrmqError
from pyrmq.model.message import MessageQueue
from pyrmq.model.record import ReceivedMessage
from pyrmq.net.command import MAX_NUMBER

ROOM = Room("messages", "Messages", "/messages", 50)
MOST_GROUPS = 128
"""Groups that are asked what they have made of a message."""
KEYED = 64
"""Messages with one key that are shown."""
DOWNLOADS = 4
"""Bodies that are downloaded at a time: one may have 64 MiB."""
_downloads = trio.Semaphore(DOWNLOADS)
TOPIC_MISSING = "Name the topic too: keys, tags, times and queues are those of a topic."
FIELDS = ("topic", "id", "key", "broker", "queue", "offset", "begin", "end", "tags", "order")


@looking
async def found(request: Request) -> Response:
    """The form, and what it finds."""
    values = {name: inputs.text(request.query_params, name) for name in FIELDS}
    shown: dict[str, Any] = {"values": values, "list": None, "error": "", "what": ""}
    if values["id"] or values["topic"]:
        try:
            shown |= await _search(await admin_of(request), request.query_params, values)
        except PyrmqError as e:
            shown["error"] = str(e)
    elif any(values[name] for name in FIELDS if name != "order"):
        shown["error"] = TOPIC_MISSING
    shown.setdefault("preview", preview_of)
    return page(request, "messages/find.html", **shown, address_of=stored.address_of)


async def _search(admin: Admin, query: Mapping[str, Any], values: dict[str, str]) -> dict[str, Any]:
    """The list that is asked for: one message by its id, some by their key, or a part of a
    topic."""
    if values["id"]:
        one = await stored.by_id(admin, values["topic"], values["id"])
        return {"list": Listing([one], 1, 1, ""), "what": "with this id"}
    topic = values["topic"]
    begin, end = inputs.moment(query, "begin"), inputs.moment(query, "end")
    if values["key"]:
        keyed = await admin.messages.by_key(
            topic,
            values["key"],
            begin=begin or 0,
            end=MAX_NUMBER if end is None else end,
            limit=KEYED,
        )
        failed = [o.problem for o in keyed.failed]
        newest = list(reversed(keyed))[:KEYED]
        return {
            "list": Listing(newest, len(keyed), 0, "", failed=failed),
            "what": f"with this key, the newest first; at most {KEYED} of each broker, "
            "fewer if they are large",
        }
    oldest = values["order"] == "oldest" or (not values["order"] and bool(values["offset"]))
    wanted = Asked(
        topic,
        broker=values["broker"],
        queue_id=inputs.number(query, "queue"),
        begin=begin,
        end=end,
        offset=inputs.number(query, "offset"),
        tags=values["tags"],
        newest=not oldest,
        cursor=str(query.get("cursor", "")),
    )
    listing = await listed(admin, wanted)
    # Times such as 30m mean the same on the following pages.
    kept = values | {"begin": begin or "", "end": end or "", "order": "oldest" if oldest else ""}
    return {
        "list": listing,
        "what": "the oldest first" if oldest else "the newest first",
        "kept": {name: value for name, value in kept.items() if value != ""},
    }


@looking
async def names(request: Request) -> Response:
    """Options for the field of the topic."""
    typed = inputs.text(request.query_params, "topic")
    found_names = suggested(await topic_names(await admin_of(request)), typed) if typed else []
    return fragment(request, "messages/names.html", names=found_names)


async def message_of(admin: Admin, values: Mapping[str, Any]) -> ReceivedMessage:
    """The message that an address or a form names: by its queue and offset, or by its id."""
    broker = inputs.text(values, "broker")
    if not broker:
        return await stored.by_id(admin, inputs.text(values, "topic"), inputs.needed(values, "id"))
    queue, offset = inputs.number(values, "queue"), inputs.number(values, "offset")
    if queue is None or offset is None:
        raise ClientError("the address names no message: it needs queue and offset")
    at = MessageQueue(inputs.needed(values, "topic"), broker, queue)
    return await stored.at(admin, at, offset)


@looking
async def one(request: Request) -> Response:
    """A message with its headers, properties and body."""
    message = await message_of(await admin_of(request), request.query_params)
    view = view_message(message)
    return page(request, "messages/one.html", view=view, m=message, at=stored.address_of(message))


@looking
async def body(request: Request) -> Response:
    """The body as a file: unpacked, or with `as=stored` as it is in the log."""
    with ExitStack() as slot:
        try:
            _downloads.acquire_nowait()
        except trio.WouldBlock:
            raise ClientError("others download bodies now: try again") from None
        slot.callback(_downloads.release)
        message = await message_of(await admin_of(request), request.query_params)
        as_stored = inputs.text(request.query_params, "as") == "stored"
        try:
            data = message.raw_body if as_stored else await acting.whole_body(message)
        except ProtocolError as e:
            raise ClientError(f"{e}: download the body as it is stored") from e
        return _Download(download(data, f"{message.msg_id}.bin"), slot.pop_all())


class _Download(Response):
    """A body that its client takes; it has a slot until then."""

    def __init__(self, file: Response, slot: ExitStack) -> None:
        super().__init__(file.body, headers=dict(file.headers))
        self._slot = slot

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._slot:
            await super().__call__(scope, receive, send)


@looking
async def data(request: Request) -> Response:
    """Headers and properties as a file with JSON."""
    message = await message_of(await admin_of(request), request.query_params)
    text = json.dumps(as_data(message), indent=2)
    return download(text.encode(), f"{message.msg_id}.json")


@looking
async def consumers(request: Request) -> Response:
    """What each group has made of a message."""
    admin = await admin_of(request)
    message = await message_of(admin, request.query_params)
    tracks, failed, error = [], [], ""
    try:
        groups = await admin.topics.groups(message.topic)
        if len(groups) > MOST_GROUPS:
            raise ClientError(f"{len(groups)} groups consume the topic, too many to ask them all")
        tracked = await admin.messages.tracks(message)
        tracks, failed = list(tracked), [o.problem for o in tracked.failed]
    except PyrmqError as e:
        error = str(e)
    return fragment(
        request,
        "messages/consumers.html",
        tracks=tracks,
        failed=failed,
        error=error,
        at=stored.address_of(message),
    )


@looking
async def ask_resend(request: Request) -> Response:
    """The confirmation of a resend."""
    message = await message_of(await admin_of(request), request.query_params)
    return page(
        request,
        "messages/resend.html",
        view=view_message(message),
        m=message,
        at=stored.address_of(message),
        fields=dict(_fields(message)),
    )


def _fields(message: ReceivedMessage) -> Mapping[str, object]:
    """The hidden fields of a form that name a message."""
    if message.broker_name:
        return {
            "topic": message.topic,
            "broker": message.broker_name,
            "queue": message.queue_id,
            "offset": message.queue_offset,
        }
    return {"topic": message.topic, "id": message.offset_msg_id}


@change("message.resend", about=("topic", "broker", "queue", "offset", "id"))
async def resend(request: Request) -> Response:
    admin = await admin_of(request)
    message = await message_of(admin, await form_of(request))
    sent = await acting.resend(admin, message)
    audit.line(
        request, "message.resend.sent", {"topic": message.topic, "id": sent.msg_id},
        sent.status.name,
    )  # fmt: skip
    text = (
        f"A copy was sent to topic {message.topic}: {sent.status.name}, id {sent.msg_id}, queue "
        f"{sent.queue.queue_id} of {sent.queue.broker_name}, offset {sent.queue_offset}."
    )
    return done(
        request, text, to=f"/messages/one?{stored.address_of(message)}",
        bad=sent.status.name != "SEND_OK",
    )  # fmt: skip


@looking
async def ask_deliver(request: Request) -> Response:
    """The choice of a member of a group that is to consume a message."""
    admin = await admin_of(request)
    message = await message_of(admin, request.query_params)
    group = inputs.needed(request.query_params, "group")
    return page(
        request,
        "messages/deliver.html",
        m=message,
        at=stored.address_of(message),
        group=group,
        members=await acting.members_of(admin, group),
        fields={**_fields(message), "group": group},
    )


@change("message.deliver", about=("topic", "broker", "queue", "offset", "id", "group", "client"))
async def deliver(request: Request) -> Response:
    admin = await admin_of(request)
    form = await form_of(request)
    message = await message_of(admin, form)
    group, client = inputs.needed(form, "group"), inputs.needed(form, "client")
    result = await acting.deliver(admin, message, group, client)
    said = f" ({result.remark})" if result.remark else ""
    text = f"{client} of group {group} answered {result.result}{said} in {result.spent_ms} ms."
    return done(
        request, text, to=f"/messages/one?{stored.address_of(message)}",
        bad=result.result not in ("CR_SUCCESS", "CR_COMMIT"),
    )  # fmt: skip


ROUTES = [
    Route("/messages", found),
    Route("/messages/names", names),
    Route("/messages/one", one),
    Route("/messages/body", body),
    Route("/messages/data", data),
    Route("/messages/consumers", consumers),
    Route("/messages/resend", ask_resend, methods=["GET"]),
    Route("/messages/resend", resend, methods=["POST"]),
    Route("/messages/deliver", ask_deliver, methods=["GET"]),
    Route("/messages/deliver", deliver, methods=["POST"]),
]
