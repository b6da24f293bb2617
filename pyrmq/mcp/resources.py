"""Resources: what a client can read by an address, without a tool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from pyrmq.mcp.catalog import READS
from pyrmq.mcp.tool import ReadTool

SCHEME = "rocketmq://"


@dataclass(frozen=True, slots=True)
class Fixed:
    """A resource with one address; `tool` reads it."""

    uri: str
    name: str
    about: str
    tool: str


@dataclass(frozen=True, slots=True)
class Template:
    """A resource for each name; `argument` of `tool` gets it."""

    template: str
    name: str
    about: str
    tool: str
    argument: str

    @property
    def beginning(self) -> str:
        return self.template.partition("{")[0]


FIXED = (
    Fixed(f"{SCHEME}cluster/health", "Health", "Whether the cluster is well.", "cluster_health"),
    Fixed(f"{SCHEME}cluster/brokers", "Brokers", "Brokers and their load.", "broker_list"),
    Fixed(f"{SCHEME}topics", "Topics", "The first names of topics.", "topic_list"),
    Fixed(f"{SCHEME}groups", "Groups", "The groups with the most lag.", "group_lags"),
)
TEMPLATES = (
    Template(f"{SCHEME}topic/{{topic}}", "Topic", "Queues of a topic.", "topic_status", "topic"),
    Template(f"{SCHEME}group/{{group}}", "Group", "Lag of a group.", "group_lag", "group"),
)
_TOOLS = {tool.name: tool for tool in READS}


def find(uri: str) -> tuple[ReadTool, dict[str, Any]] | None:
    """The tool that reads a resource, and its arguments; None if there is no such resource."""
    for one in FIXED:
        if one.uri == uri:
            return _TOOLS[one.tool], {}
    for template in TEMPLATES:
        name = uri.removeprefix(template.beginning)
        if name and name != uri and "/" not in name:
            return _TOOLS[template.tool], {template.argument: unquote(name)}
    return None
