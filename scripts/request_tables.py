"""The tables of docs/requests.md: which processor takes which request, asked of servers that run.

A broker and a name server are started for it, so that the tables are what a client meets.
"""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import trio

import pyrmq.testing
from pyrmq.broker.requests.processors import refused_requests, slave_refusals
from pyrmq.model.codes import RequestCode
from pyrmq.model.request_kinds import ABSENT_REQUESTS, ADMIN_REQUESTS, refusal
from pyrmq.namesrv import NameServer
from pyrmq.namesrv.config import NamesrvConfig

USERS = "LocalAuthenticationMetadataProvider"
"""Both keep users, so that they take the requests about them."""
HEAD = ["| Code | Request | Processor | In |", "|---|---|---|---|"]


@cache
def servers() -> tuple[Mapping[int, Any], Mapping[int, Any]]:
    """The processors by request code: of a broker, and of a name server."""
    with pyrmq.testing.broker(authentication_metadata_provider=USERS) as running:
        broker = dict(running.broker.parts.processors)
    return broker, trio.run(_of_a_name_server)


async def _of_a_name_server() -> Mapping[int, Any]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kvConfig.json"
        server = NameServer(
            NamesrvConfig(
                bind_address="127.0.0.1",
                listen_port=0,
                kv_config_path=file,
                authentication_metadata_provider=USERS,
            )
        )
        async with trio.open_nursery() as nursery:
            await nursery.start(server.run)
            nursery.cancel_scope.cancel()
    return server.processors


def name_of(code: int) -> str:
    """The published name of a request."""
    try:
        return RequestCode(code).name
    except ValueError:
        return ADMIN_REQUESTS.get(code, "")


def where(processor: Any) -> tuple[str, str]:
    """What a processor is called, and the file that has it."""
    processor = inspect.unwrap(processor)
    owner = getattr(processor, "__self__", None)
    if owner is not None:
        kind, name = type(owner), f"{type(owner).__name__}.{processor.__name__}"
    elif isinstance(getattr(processor, "__name__", None), str):
        kind, name = processor, processor.__name__
    else:
        kind, name = type(processor), type(processor).__name__
    return name, kind.__module__.replace(".", "/") + ".py"


def _table(processors: Mapping[int, Any]) -> str:
    rows = list(HEAD)
    for code, processor in sorted(processors.items()):
        name, file = where(processor)
        marks = "".join(
            mark
            for mark, codes in ((" (o)", ADMIN_REQUESTS), (" (m)", slave_refusals()))
            if code in codes
        )
        rows.append(f"| {code} | {name_of(code)}{marks} | `{name}` | `{file}` |")
    return "\n".join(rows) + "\n"


def of_broker() -> str:
    """The requests that a broker takes."""
    refused = refused_requests()
    return _table({c: p for c, p in servers()[0].items() if c not in refused})


def of_name_server() -> str:
    """The requests that a name server takes."""
    return _table(servers()[1])


def of_nobody() -> str:
    """The requests that are refused with a reason."""
    texts: dict[str, list[int]] = {}
    for code in sorted(ABSENT_REQUESTS):
        texts.setdefault(refusal(code).partition(": ")[2], []).append(code)
    rows = ["| Codes | The reason that the refusal gives |", "|---|---|"]
    rows += [f"| {', '.join(map(str, codes))} | {text} |" for text, codes in texts.items()]
    return "\n".join(rows) + "\n"
