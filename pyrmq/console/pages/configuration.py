"""The room of configurations: keys of brokers and name servers, KV, and changing them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pyrmq.admin.namesrv import NAMESPACE
from pyrmq.admin.outcome import Outcome
from pyrmq.console.changes import change, done_at, form_of
from pyrmq.console.link import admin_of
from pyrmq.console.pages import configuration_data as data
from pyrmq.console.pages.configuration_data import KeyRow
from pyrmq.console.paging import Listing, listing
from pyrmq.console.rendering import link, page
from pyrmq.console.room import Room
from pyrmq.errors import ClientError

ROOM = Room("configuration", "Configuration", "/configuration", 110)
MAX_VALUE = 65_536
"""Characters of a value."""
COLUMNS: Mapping[str, Callable[[KeyRow], Any]] = {
    "name": lambda row: row.name.lower(),
    "value": lambda row: row.value.lower(),
}
_ONLY: Mapping[str, Callable[[KeyRow], bool]] = {
    "changed": lambda row: row.changed is True,
    "live": lambda row: row.live is True,
}


async def brokers(request: Request) -> Response:
    own = request.query_params.get("own") == "yes"
    found = await data.brokers(await admin_of(request), own=own)
    return page(request, "configuration/brokers.html", found=found, own=own)


def _keys(request: Request, keys: tuple[KeyRow, ...]) -> Listing[KeyRow]:
    only = _ONLY.get(request.query_params.get("only", ""))
    rows = [row for row in keys if only is None or only(row)]
    return listing(request, rows, COLUMNS, "name", lambda row: f"{row.name} {row.doc}")


async def broker(request: Request) -> Response:
    address = request.path_params["address"]
    found = await data.broker(await admin_of(request), address)
    return page(
        request, "configuration/keys.html", server=found, list=_keys(request, found.keys),
        base=link("/configuration/brokers/{}", address), differences=(), problems=(), servers=1,
        only=request.query_params.get("only", ""),
    )  # fmt: skip


async def name_servers(request: Request) -> Response:
    found = await data.name_servers(await admin_of(request))
    return page(
        request, "configuration/keys.html", server=found.server,
        list=_keys(request, found.server.keys), base="/configuration/namesrv",
        differences=found.differences, problems=found.problems, servers=len(found.addresses),
        only=request.query_params.get("only", ""),
    )  # fmt: skip


async def broker_key(request: Request) -> Response:
    address, name = request.path_params["address"], request.path_params["key"]
    found = await data.broker(await admin_of(request), address)
    base = link("/configuration/brokers/{}", address)
    return page(
        request, "configuration/key.html", server=found, row=found.key(name), base=base,
        of_broker=True,
    )  # fmt: skip


async def namesrv_key(request: Request) -> Response:
    found = (await data.name_servers(await admin_of(request))).server
    return page(
        request, "configuration/key.html", server=found, row=found.key(request.path_params["key"]),
        base="/configuration/namesrv", of_broker=False,
    )  # fmt: skip


def _bounded(value: object) -> str:
    text = str(value or "").strip()
    if len(text) > MAX_VALUE:
        raise ClientError(f"a value has at most {MAX_VALUE} characters")
    return text


async def broker_preview(request: Request) -> Response:
    address, key = request.path_params["address"], request.path_params["key"]
    value = _bounded(request.query_params.get("value"))
    scope = request.query_params.get("scope", data.BROKER)
    found = await data.broker_change(await admin_of(request), address, scope, key, value)
    base = link("/configuration/brokers/{}", address)
    return page(
        request, "configuration/preview.html", change=found, action=f"{base}/change",
        fields={"key": key, "value": value, "scope": scope},
        back=link("/configuration/brokers/{}/keys/{}", address, key),
    )  # fmt: skip


async def namesrv_preview(request: Request) -> Response:
    key, value = request.path_params["key"], _bounded(request.query_params.get("value"))
    found = await data.namesrv_change(await admin_of(request), key, value)
    return page(
        request, "configuration/preview.html", change=found, action="/configuration/namesrv/change",
        fields={"key": key, "value": value}, back=link("/configuration/namesrv/keys/{}", key),
    )  # fmt: skip


@change("broker.config", about=("key", "value", "scope"))
async def broker_update(request: Request) -> Response:
    form = await form_of(request)
    admin, address = await admin_of(request), request.path_params["address"]
    key, value = str(form.get("key", "")), _bounded(form.get("value"))
    found = await data.broker_change(
        admin, address, str(form.get("scope", data.BROKER)), key, value
    )
    if not found.possible:
        raise ClientError("; ".join(f"{s.label}: {s.problem}" for s in found.steps))

    async def one(target: str) -> None:
        (await admin.brokers.update_config(key, value, broker=target)).check_all()

    outcomes = await admin.link.on_each([s.address for s in found.steps if not s.problem], one)
    outcomes += [Outcome(s.label, error=ClientError(s.problem)) for s in found.steps if s.problem]
    to = link("/configuration/brokers/{}", address, q=key)
    return done_at(request, outcomes, f"{key} is {value} now", to=to)


@change("namesrv.config", about=("key", "value"))
async def namesrv_update(request: Request) -> Response:
    form = await form_of(request)
    admin = await admin_of(request)
    key, value = str(form.get("key", "")), _bounded(form.get("value"))
    found = await data.namesrv_change(admin, key, value)
    if not found.possible:
        raise ClientError("; ".join(f"{s.label}: {s.problem}" for s in found.steps))
    outcomes = await admin.namesrv.update_config(key, value)
    to = link("/configuration/namesrv", q=key)
    return done_at(request, outcomes, f"{key} is {value} now", to=to)


async def kv(request: Request) -> Response:
    namespace = request.query_params.get("namespace", "").strip() or NAMESPACE
    found = await data.kv(await admin_of(request), namespace)
    columns: Mapping[str, Callable[[tuple[str, str]], Any]] = {
        "key": lambda row: row[0], "value": lambda row: row[1],
    }  # fmt: skip
    rows = listing(request, found.items(), columns, "key", lambda row: f"{row[0]} {row[1]}")
    return page(request, "configuration/kv.html", namespace=namespace, list=rows)


async def kv_preview(request: Request) -> Response:
    asked = request.query_params
    namespace, key = asked.get("namespace", "").strip(), asked.get("key", "").strip()
    if not namespace or not key:
        raise ClientError("a value of the KV configuration has a namespace and a key")
    deletes = asked.get("what") == "delete"
    value = "" if deletes else _bounded(asked.get("value"))
    now = (await data.kv(await admin_of(request), namespace)).get(key)
    return page(
        request, "configuration/kv_preview.html", namespace=namespace, key=key, value=value,
        now=now, deletes=deletes,
    )  # fmt: skip


@change("namesrv.kv", about=("namespace", "key", "value", "what"))
async def kv_change(request: Request) -> Response:
    form = await form_of(request)
    admin = await admin_of(request)
    namespace, key = str(form.get("namespace", "")), str(form.get("key", ""))
    to = link("/configuration/kv", namespace=namespace)
    if form.get("what") == "delete":
        outcomes = await admin.namesrv.delete(namespace, key)
        return done_at(request, outcomes, f"{key} is deleted", to=to)
    outcomes = await admin.namesrv.put(namespace, key, _bounded(form.get("value")))
    return done_at(request, outcomes, f"{key} is set", to=to)


_OF_BROKER = "/configuration/brokers/{address}"
ROUTES = [
    Route("/configuration", brokers),
    Route(_OF_BROKER, broker),
    Route(f"{_OF_BROKER}/change", broker_update, methods=["POST"]),
    Route(f"{_OF_BROKER}/keys/{{key}}", broker_key),
    Route(f"{_OF_BROKER}/keys/{{key}}/preview", broker_preview),
    Route("/configuration/namesrv", name_servers),
    Route("/configuration/namesrv/change", namesrv_update, methods=["POST"]),
    Route("/configuration/namesrv/keys/{key}", namesrv_key),
    Route("/configuration/namesrv/keys/{key}/preview", namesrv_preview),
    Route("/configuration/kv", kv),
    Route("/configuration/kv/preview", kv_preview),
    Route("/configuration/kv/change", kv_change, methods=["POST"]),
]
