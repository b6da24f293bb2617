"""The room of access: users, access lists, and accounts of ACL 1.0.

A password goes from a form to the brokers, and is on no page: a form that is refused keeps it in
the browser, a change of a user is confirmed in its own form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pyrmq.admin.auth import STATUSES, TYPES, User
from pyrmq.console.changes import change, done_at, form_of, typed
from pyrmq.console.link import admin_of
from pyrmq.console.pages import access_data as data
from pyrmq.console.pages.access_data import AccountRow, EntryRow, Row, UserRow
from pyrmq.console.paging import listing
from pyrmq.console.rendering import link, page
from pyrmq.console.room import Room
from pyrmq.console.sessions import session_of
from pyrmq.console.settings import LoginKind, Settings
from pyrmq.errors import ClientError

ROOM = Room("access", "Access", "/access", 120)
MAX_NAME, MAX_PASSWORD = 256, 1024
USERS: Mapping[str, Callable[[Row[UserRow]], Any]] = {
    "name": lambda row: row.one.name,
    "type": lambda row: row.one.type,
    "status": lambda row: row.one.status,
}
ENTRIES: Mapping[str, Callable[[Row[EntryRow]], Any]] = {
    "subject": lambda row: (row.one.subject, row.one.resource),
    "resource": lambda row: (row.one.resource, row.one.subject),
    "decision": lambda row: (row.one.decision, row.one.subject),
}
ACCOUNTS: Mapping[str, Callable[[Row[AccountRow]], Any]] = {
    "key": lambda row: row.one.access_key,
    "admin": lambda row: (not row.one.admin, row.one.access_key),
}


def _asked(request: Request) -> str:
    return request.query_params.get("cluster", "")


async def users(request: Request) -> Response:
    found = await data.users(await admin_of(request), _asked(request))
    rows = listing(request, found.rows, USERS, "name", lambda row: row.one.name)
    return page(request, "access/users.html", found=found, list=rows)


async def lists(request: Request) -> Response:
    found = await data.entries(await admin_of(request), _asked(request))
    rows = listing(
        request, found.rows, ENTRIES, "subject", lambda row: f"{row.one.subject} {row.one.resource}"
    )
    return page(request, "access/lists.html", found=found, list=rows)


async def accounts(request: Request) -> Response:
    found = await data.accounts(await admin_of(request), _asked(request))
    rows = listing(request, found.found.rows, ACCOUNTS, "key", lambda row: row.one.access_key)
    return page(request, "access/accounts.html", found=found.found, white=found.white, list=rows)


async def new_user(request: Request) -> Response:
    cluster, _ = await data.cluster_of(await admin_of(request), _asked(request))
    return page(request, "access/new_user.html", cluster=cluster, types=TYPES)


async def user(request: Request) -> Response:
    """A user, with the forms that change and delete it."""
    name = request.query_params.get("name", "")
    found = await data.users(await admin_of(request), _asked(request))
    row = next((row for row in found.rows if row.one.name == name), None)
    if row is None:
        raise ClientError(f"cluster {found.cluster} has no user {name}")
    return page(
        request, "access/user.html", found=found, row=row, types=TYPES, statuses=STATUSES,
        own=name == _signs_as(request),
    )  # fmt: skip


def _signs_as(request: Request) -> str:
    """The user that signs the requests of this page; empty if they are not signed."""
    settings: Settings = request.app.state.settings
    of_user = settings.login is LoginKind.BROKER
    credentials = session_of(request).credentials if of_user else settings.credentials
    return credentials.access_key if credentials else ""


def _password(value: object) -> str | None:
    text = str(value or "")
    if len(text) > MAX_PASSWORD:
        raise ClientError(f"a password has at most {MAX_PASSWORD} characters")
    return text or None


def _at(form: Mapping[str, Any]) -> str:
    return str(form.get("cluster", ""))


@change("user.create", about=("cluster", "name", "type"))
async def create_user(request: Request) -> Response:
    form = await form_of(request)
    name = str(form.get("name", "")).strip()
    if len(name) > MAX_NAME:
        raise ClientError(f"a name has at most {MAX_NAME} characters")
    made = User(name, _password(form.get("password")), str(form.get("type", "Normal")), "enable")
    outcomes = await (await admin_of(request)).users.create(made, cluster=_at(form))
    return done_at(
        request, outcomes, f"User {name} is created", to=link("/access", cluster=_at(form))
    )


@change("user.change", about=("cluster", "name", "type", "status"))
async def change_user(request: Request) -> Response:
    form = await form_of(request)
    name = str(form.get("name", ""))
    typed(form, name)
    changed = User(
        name, _password(form.get("password")), str(form.get("type", "")) or None,
        str(form.get("status", "")) or None,
    )  # fmt: skip
    outcomes = await (await admin_of(request)).users.update(changed, cluster=_at(form))
    return done_at(
        request, outcomes, f"User {name} is changed", to=link("/access", cluster=_at(form))
    )


@change("user.delete", about=("cluster", "name"))
async def delete_user(request: Request) -> Response:
    form = await form_of(request)
    name = str(form.get("name", ""))
    typed(form, name)
    if name == _signs_as(request):
        raise ClientError(f"{name} signs the requests of this page: delete it as another user")
    outcomes = await (await admin_of(request)).users.delete(name, cluster=_at(form))
    return done_at(
        request, outcomes, f"User {name} is deleted", to=link("/access", cluster=_at(form))
    )


async def edit_list(request: Request) -> Response:
    """A form for entries of a subject; with `resource` it has the values of that entry."""
    asked = request.query_params
    found = await data.entries(await admin_of(request), _asked(request))
    subject, resource = asked.get("subject", ""), asked.get("resource", "")
    row = next(
        (r.one for r in found.rows if (r.one.subject, r.one.resource) == (subject, resource)), None
    )
    return page(
        request, "access/edit_list.html", found=found, row=row, subject=subject, resource=resource,
        actions=data.ACTIONS, decisions=data.DECISIONS,
    )  # fmt: skip


async def preview_list(request: Request) -> Response:
    asked = request.query_params
    acl = data.acl_of(
        asked.get("subject", ""), asked.get("resources", ""), asked.getlist("actions"),
        asked.get("source_ips", ""), asked.get("decision", ""),
    )  # fmt: skip
    found = await data.entries(await admin_of(request), _asked(request))
    fields = {
        "cluster": found.cluster, "subject": acl.subject,
        "resources": " ".join(entry.resource for entry in acl.entries),
        "actions": " ".join(acl.entries[0].actions),
        "source_ips": " ".join(acl.entries[0].source_ips), "decision": acl.entries[0].decision,
    }  # fmt: skip
    return page(
        request, "access/preview_list.html", found=found, steps=data.steps_of(acl, found),
        fields=fields, subject=acl.subject,
    )  # fmt: skip


@change("acl.change", about=("cluster", "subject", "resources", "actions", "source_ips",
                             "decision"))  # fmt: skip
async def change_list(request: Request) -> Response:
    form = await form_of(request)
    acl = data.acl_of(
        str(form.get("subject", "")), str(form.get("resources", "")),
        data.parts_of(str(form.get("actions", "")), "actions"),
        str(form.get("source_ips", "")), str(form.get("decision", "")),
    )  # fmt: skip
    outcomes = await (await admin_of(request)).acls.update(acl, cluster=_at(form))
    to = link("/access/lists", cluster=_at(form), q=acl.subject)
    return done_at(request, outcomes, f"The access list of {acl.subject} is changed", to=to)


async def ask_delete_list(request: Request) -> Response:
    asked = request.query_params
    found = await data.entries(await admin_of(request), _asked(request))
    subject, resource = asked.get("subject", ""), asked.get("resource", "")
    policy = asked.get("policy", "")
    rows = [
        row
        for row in found.rows
        if row.one.subject == subject
        and (not resource or (row.one.resource, row.one.policy) == (resource, policy))
    ]
    if not rows:
        raise ClientError(f"{subject or 'nobody'} has no such entry in cluster {found.cluster}")
    return page(
        request, "access/delete_list.html", found=found, rows=rows, subject=subject,
        resource=resource, policy=policy,
    )  # fmt: skip


@change("acl.delete", about=("cluster", "subject", "resource", "policy"))
async def delete_list(request: Request) -> Response:
    form = await form_of(request)
    subject, resource = str(form.get("subject", "")), str(form.get("resource", ""))
    typed(form, subject)
    outcomes = await (await admin_of(request)).acls.delete(
        subject, resource or None, policy=str(form.get("policy", "")) or None, cluster=_at(form)
    )
    to = link("/access/lists", cluster=_at(form))
    return done_at(
        request, outcomes, f"{resource or 'The access list'} of {subject} is deleted", to=to
    )


ROUTES = [
    Route("/access", users),
    Route("/access/lists", lists),
    Route("/access/accounts", accounts),
    Route("/access/users/new", new_user),
    Route("/access/users/create", create_user, methods=["POST"]),
    Route("/access/users/change", change_user, methods=["POST"]),
    Route("/access/users/delete", delete_user, methods=["POST"]),
    Route("/access/users/one", user),
    Route("/access/lists/edit", edit_list),
    Route("/access/lists/preview", preview_list),
    Route("/access/lists/change", change_list, methods=["POST"]),
    Route("/access/lists/ask-delete", ask_delete_list),
    Route("/access/lists/delete", delete_list, methods=["POST"]),
]
