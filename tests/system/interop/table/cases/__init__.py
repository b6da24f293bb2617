"""The cases, a file for each kind of command; the kinds are run in this order."""

from __future__ import annotations

from ..case import Case
from ..explained import explained
from . import access, clusters, exports, groups, messages, namesrv, topics

KINDS: dict[str, tuple[Case, ...]] = {
    "topics": topics.CASES,
    "clusters": clusters.CASES,
    "messages": messages.CASES,
    "groups": groups.CASES,
    "namesrv": namesrv.CASES,
    "access": access.CASES,
    "exports": exports.CASES,
}
KINDS = {kind: tuple(map(explained, cases)) for kind, cases in KINDS.items()}
EVERY = tuple(case for cases in KINDS.values() for case in cases)
