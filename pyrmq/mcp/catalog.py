"""All tools, in the order in which clients list them."""

from __future__ import annotations

from pyrmq.mcp.changes import others as other_changes
from pyrmq.mcp.changes import topics as topic_changes
from pyrmq.mcp.tool import ChangeTool, ReadTool
from pyrmq.mcp.tools import cluster, groups, messages, others, topics

READS: tuple[ReadTool, ...] = (
    *cluster.TOOLS, *topics.TOOLS, *groups.TOOLS, *messages.TOOLS, *others.TOOLS,
)  # fmt: skip
CHANGES: tuple[ChangeTool, ...] = (*topic_changes.CHANGES, *other_changes.CHANGES)
