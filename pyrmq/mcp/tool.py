"""What a tool is: one that reads, and one that changes something."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from pyrmq.admin.api import Admin
from pyrmq.mcp.arguments import Argument, Asked

LIMIT = Argument("limit", "Most rows.", "whole", default=50, low=1, high=500)
OFFSET = Argument("offset", "Rows to skip: next_offset of the call before.", "whole", default=0)
FILTER = Argument("filter", "Only names that contain this text.", default="")
TOPIC = Argument("topic", "The topic.", required=True)
GROUP = Argument("group", "The consumer group.", required=True)
BROKER = Argument(
    "broker", "The broker's address, host:port: see broker_list.", required=True, leads_to="server"
)
CLUSTER = Argument("cluster", "The cluster: see broker_list.", required=True)
OF_CLUSTER = Argument("cluster", "Only this cluster.")


@dataclass(frozen=True, slots=True)
class ReadTool:
    """A tool that changes nothing. `run` gives its result, before it is bounded."""

    name: str
    title: str
    about: str
    run: Callable[[Admin, Asked], Awaitable[Any]]
    arguments: tuple[Argument, ...] = ()


@dataclass(frozen=True, slots=True)
class Prepared:
    """A change that is looked into and not done. `says`: what it does, in a sentence. `preview`:
    what it meets. `work` does it, and gives its result."""

    says: str
    preview: Any
    work: Callable[[], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class ChangeTool:
    """A tool that changes something. `destructive`: what it takes away does not come back.
    `repeatable`: to do it twice is to do it once."""

    name: str
    title: str
    about: str
    prepare: Callable[[Admin, Asked], Awaitable[Prepared]]
    arguments: tuple[Argument, ...]
    destructive: bool = False
    repeatable: bool = True


Tool = ReadTool | ChangeTool
