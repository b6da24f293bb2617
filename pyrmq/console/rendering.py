"""Pages from templates: whole, or only the part that htmx asks for; filters for names and numbers.

Everything that a template shows is escaped for HTML by jinja2. The filter `text` also makes
characters visible that have no shape, or that turn the reading direction around.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from pyrmq.console.sessions import session_of
from pyrmq.console.settings import Role, Settings
from pyrmq.escape import escape

HERE = Path(__file__).resolve().parent
STATIC = HERE / "static"
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
BLANK = "–"
"""What stands for a value that is not known."""


def page(request: Request, template: str, status: int = 200, /, **values: Any) -> Response:
    """The whole page, or only its block `content` for a request of htmx."""
    found = environment().get_template(template)
    context = found.new_context(_context(request, values))
    if _part_only(request):
        text = "".join(found.blocks["content"](context))
        title = "".join(found.blocks["title"](context)) if "title" in found.blocks else ""
        if title:
            text = f"<title>{title} · pyrmq</title>{text}"
    else:
        text = "".join(found.root_render_func(context))
    return HTMLResponse(text, status)


def fragment(request: Request, template: str, status: int = 200, /, **values: Any) -> Response:
    """A template that is a part of a page, as `live` parts and answers of forms are."""
    found = environment().get_template(template)
    return HTMLResponse(found.render(_context(request, values)), status)


def is_htmx(request: Request) -> bool:
    """Whether htmx asks, which puts the answer into a page that is already there."""
    return request.headers.get("hx-request") == "true"


def own_path(request: Request) -> str:
    """The path of a request, quoted as `link` quotes names."""
    return quote(request.scope["path"], safe="/")


def own_address(request: Request) -> str:
    """The same with its query."""
    query = request.url.query
    return f"{own_path(request)}?{query}" if query else own_path(request)


def _part_only(request: Request) -> bool:
    return is_htmx(request) and request.headers.get("hx-history-restore-request") != "true"


def _context(request: Request, values: Mapping[str, Any]) -> dict[str, Any]:
    settings: Settings = request.app.state.settings
    session = session_of(request) if "pyrmq_session" in request.scope else None
    found = {
        "request": request,
        "path": own_path(request),
        "address": own_address(request),
        "rooms": request.app.state.rooms.rooms,
        "session": session,
        "token": session.token if session else "",
        "may_change": bool(
            session and session.role is not Role.READ_ONLY and not settings.read_only
        ),
        "read_only": settings.read_only,
        "settings": settings,
        "notes": session.take_notes() if session and not is_htmx(request) else [],
        "query": request.query_params,
        **values,
    }
    # With the values of the page, as `import … with context`; blocks alone have no imports.
    return found | {"parts": environment().get_template("parts.html").make_module(found)}


@cache
def environment() -> Environment:
    """The templates of the package. A name that is not given is an error, not an empty text."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "text": text,
        "bytes": human_bytes,
        "number": number,
        "rate": rate,
        "time": at_time,
        "ago": ago,
        "duration": duration,
        "part": percent,
        "segment": lambda value: quote(str(value), safe=""),
    }
    made.globals |= {"static": static, "link": link, "BLANK": BLANK}
    return made


@cache
def static(name: str) -> str:
    """The path of a static file. It changes with the file, so that browsers may keep it."""
    found = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]
    return f"/static/{name}?v={found}"


def link(path: str, /, *names: object, **query: object) -> str:
    """A path with `{}` for each name, and a query: `link("/topics/{}", name, sort="lag")`. Names
    are quoted, also their slashes; values of the query that are None or empty are left out."""
    filled = path.format(*(quote(str(name), safe="") for name in names))
    asked = {key: value for key, value in query.items() if value not in (None, "")}
    return f"{filled}?{urlencode(asked)}" if asked else filled


def text(value: object, most: int = 0) -> str:
    """A text of others in one line of printable characters; longer ones are cut at `most`."""
    shown = escape("" if value is None else value)
    return f"{shown[:most]}…" if most and len(shown) > most else shown


def number(value: float | None) -> str:
    """A number with blanks between thousands."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return BLANK
    if isinstance(value, float) and not value.is_integer():
        return f"{value:,.2f}".replace(",", "\u202f")
    return f"{int(value):,}".replace(",", "\u202f")


def human_bytes(value: float | None) -> str:
    """A number of bytes, in the unit that suits it."""
    if value is None:
        return BLANK
    size, unit = float(value), 0
    while abs(size) >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.0f} B" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"


def rate(value: float | None) -> str:
    """A number a second."""
    if value is None:
        return BLANK
    shown = f"{value:.1f}".removesuffix(".0") if abs(value) < 100 else number(round(value))
    return f"{shown}/s"


def percent(value: float | None) -> str:
    """A part of one as a percentage."""
    return BLANK if value is None else f"{100 * value:.1f} %"


def at_time(millis: float | None) -> str:
    """A time in ms since 1970, in the console's time zone; a blank for 0 and less."""
    if millis is None or millis <= 0:
        return BLANK
    try:
        there = time.localtime(millis / 1000)
    except (OverflowError, OSError, ValueError):
        return f"{millis} ms"
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', there)}.{int(millis) % 1000:03}"


def ago(millis: float | None, now: float | None = None) -> str:
    """How long a time in ms since 1970 is ago."""
    if millis is None or millis <= 0:
        return BLANK
    passed = (time.time() if now is None else now) - millis / 1000
    return f"in {duration(-passed)}" if passed < 0 else f"{duration(passed)} ago"


def duration(seconds: float | None) -> str:
    """A duration in its two largest units."""
    if seconds is None or not math.isfinite(seconds):
        return BLANK
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    left = int(seconds)
    found: list[str] = []
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        if left >= size or (found and left):
            found.append(f"{left // size} {unit}")
            left %= size
        if len(found) == 2:
            break
    return " ".join(found)
