"""Changes: what a form does, with all checks before it and a line in the audit after it."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Sequence
from functools import wraps
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from pyrmq.admin.outcome import Outcomes
from pyrmq.config.secret_names import is_secret
from pyrmq.config.table import HIDDEN
from pyrmq.console import audit
from pyrmq.console.rendering import fragment, is_htmx, page
from pyrmq.console.sessions import Note, session_of
from pyrmq.console.settings import Role, Settings
from pyrmq.console.views.summary import summary_of
from pyrmq.errors import PyrmqError, leaves

MAX_FIELDS = 1000
"""Fields of a form."""
TOKEN_FIELD = "_csrf"
TOKEN_HEADER = "x-csrf-token"
OLD_PAGE = "This page is too old to change anything: load it again."

Handler = Callable[[Request], Awaitable[Response]]


class RefusedError(PyrmqError):
    """A form that is refused before anything was changed."""


def change(action: str, about: Sequence[str] = ()) -> Callable[[Handler], Handler]:
    """Wraps the handler of a POST that changes something.

        @change("topic.delete", about=("topic",))
        async def delete(request: Request) -> Response:
            form = await form_of(request)
            await (await admin_of(request)).topics.delete(form["topic"])
            return done(request, "The topic is deleted.", to="/topics")

    `action`: its name in the audit. `about`: the fields of the form whose values stand in the
    audit. Refused without the token of the session, from another site, in read-only mode and for
    users who may only read. A PyrmqError of the handler becomes a message on the page.
    """

    def wrapped(handler: Handler) -> Handler:
        @wraps(handler)
        async def run(request: Request) -> Response:
            form = await form_of(request)
            said = {name: str(form[name]) for name in about if name in form}
            if is_secret(said.get("key", "")) and "value" in said:
                said["value"] = HIDDEN
            try:
                _check(request, form)
                answer = await handler(request)
            except Exception as e:
                errors = leaves(e)
                audit.line(request, action, said, f"failed: {'; '.join(map(str, errors))}")
                if not all(isinstance(leaf, PyrmqError) for leaf in errors):
                    raise
                status = 403 if isinstance(e, RefusedError) else 422
                return failed(request, "; ".join(map(str, errors)), status)
            audit.line(request, action, said, "done")
            return answer

        return run

    return wrapped


async def form_of(request: Request) -> FormData:
    """The fields of a form; the same when asked again."""
    return await request.form(max_fields=MAX_FIELDS, max_files=0)


def done(request: Request, text: str, *, to: str, bad: bool = False) -> Response:
    """After a change: the page `to`, a path of the console, with a message on it. `bad`: a part of
    it failed."""
    assert to[:1] == "/" != to[1:2], to
    session_of(request).note(text, bad=bad)
    if is_htmx(request):
        return Response(status_code=204, headers={"HX-Redirect": to})
    return RedirectResponse(to, status_code=303)


def done_at(request: Request, outcomes: Outcomes[Any], verb: str, *, to: str) -> Response:
    """After a change at several servers: as `done`, with the servers that refused it. Raises the
    first error if all did."""
    text, bad = summary_of(outcomes, verb)
    return done(request, text, to=to, bad=bad)


def failed(request: Request, text: str, status: int = 422) -> Response:
    """What a change says that was not done: a message above the form, which keeps its values."""
    if is_htmx(request):
        return fragment(request, "notes.html", status, notes=[Note(text, bad=True)])
    return page(request, "error.html", status, title="Not done", text=text, again=False)


def typed(form: FormData, name: str) -> None:
    """Refuses a form unless the user has typed `name`, as `confirm` of parts.html asks for."""
    if str(form.get("_typed", "")) != name:
        raise RefusedError(f"type {name} to confirm")


def _check(request: Request, form: FormData) -> None:
    settings: Settings = request.app.state.settings
    session = session_of(request)
    if not from_here(request, settings.url):
        raise RefusedError("the form came from another site")
    given = request.headers.get(TOKEN_HEADER) or str(form.get(TOKEN_FIELD, ""))
    if not hmac.compare_digest(given.encode(), session.token.encode()):
        raise RefusedError(OLD_PAGE)
    if settings.read_only:
        raise RefusedError("the console is read-only (it was started with --read-only)")
    if session.role is Role.READ_ONLY:
        raise RefusedError(f"user {session.user} may only read")


def from_here(request: Request, url: str = "") -> bool:
    """Whether a page of this console made the request, as far as the browser says where it came
    from. `url`: the address of a proxy before it, which may be another one than this console
    sees."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = request.headers.get("origin")
    if origin is None:
        return True
    own = {request.headers.get("host", "").lower(), urlsplit(url).netloc.lower()} - {""}
    try:
        return urlsplit(origin).netloc.lower() in own
    except ValueError:
        return False
