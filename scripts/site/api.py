"""The pages of the Python API, which mkdocstrings fills from the docstrings.

Which names there are says `pyrmq` itself: a name that it exports is on one of the pages.
"""

from __future__ import annotations

import pyrmq
import pyrmq.sync

CLIENTS = """# Clients

Producers and consumers. They are shown as `pyrmq` has them, on trio. `pyrmq.aio` (asyncio) and
`pyrmq.sync` (blocking) have the same classes with the same options, results and errors; what
differs is in the [guide](../guide.md#asyncio-blocking-code-and-trio).
"""
VALUES = """# Values and errors

What clients take and return, and the errors that they raise. All are names of `pyrmq`.
"""
SCAN = """# Reading stores

Files of a store as Arrow data ([scan.md](../scan.md)), and tables with the log behind them
([tables.md](../tables.md)). All are names of `pyrmq`.
"""
ADMIN = """# Administration

`pyrmq.admin.Admin` is for trio; `pyrmq.aio.Admin` and `pyrmq.sync.Admin` have the same members.
[Administration](../admin.md#in-python) has an example.
"""
TESTING = """# Tests

`pyrmq.testing` runs a name server and a broker in the process of a test. The
[guide](../guide.md#tests-of-your-own) has examples.
"""
ADMIN_MEMBERS = {
    "brokers": "pyrmq.admin.brokers.Brokers",
    "clusters": "pyrmq.admin.clusters.Clusters",
    "dead_letters": "pyrmq.admin.resend.DeadLetters",
    "groups": "pyrmq.admin.groups.Groups",
    "lives": "pyrmq.admin.life.Lives",
    "messages": "pyrmq.admin.messages.Messages",
    "namesrv": "pyrmq.admin.namesrv.Namesrv",
    "offsets": "pyrmq.admin.offset_moves.Offsets",
    "timers": "pyrmq.admin.timers.Timers",
    "topics": "pyrmq.admin.topics.Topics",
    "transactions": "pyrmq.admin.transactions.Transactions",
    "usage": "pyrmq.admin.usage.Usages",
}
"""Members of Admin, and their classes."""


FIRST = ("Producer", "TransactionalProducer", "PushConsumer", "SimpleConsumer", "LitePullConsumer")
"""What readers look for first."""


def pages() -> dict[str, str]:
    """Their texts, by place on the site."""
    names: dict[str, list[str]] = {"clients": [], "values": [], "scan": []}
    for module, listed in pyrmq._NAMES.items():
        names[_page(module)] += [f"{module}.{name}" for name in listed.split()]
    names["clients"].sort(key=_rank)
    members = [_entry(name) for name in ADMIN_MEMBERS.values()]
    return {
        "reference/api-clients.md": _page_of(CLIENTS, names["clients"]),
        "reference/api-values.md": _page_of(VALUES, names["values"]),
        "reference/api-scan.md": _page_of(SCAN, names["scan"]),
        "reference/api-admin.md": "\n".join([ADMIN, _entry("pyrmq.admin.api.Admin"), *members, ""]),
        "reference/api-testing.md": "\n".join(
            [TESTING, "::: pyrmq.testing\n    options: {show_root_heading: false}", ""]
        ),
    }


def _rank(name: str) -> tuple[int, str]:
    last = name.rpartition(".")[2]
    return FIRST.index(last) if last in FIRST else len(FIRST), last


def _entry(name: str) -> str:
    """The directive for a name. A client has the members that its twin for blocking code has: the
    others are for its own parts."""
    last = name.rpartition(".")[2]
    if last not in (*FIRST, "Outbox", "Admin"):
        return f"::: {name}"
    members = [member for member in dir(getattr(pyrmq.sync, last)) if not member.startswith("_")]
    return f"::: {name}\n    options: {{members: [{', '.join(members)}]}}"


def _page(module: str) -> str:
    if module.startswith(("pyrmq.client.", "pyrmq.outbox")):
        return "clients"
    return "scan" if module.startswith(("pyrmq.segments.", "pyrmq.tables.")) else "values"


def _page_of(head: str, names: list[str]) -> str:
    return "\n".join([head, *map(_entry, names), ""])
