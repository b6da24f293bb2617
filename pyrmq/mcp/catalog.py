"""All tools, in the order in which clients list them."""

from __future__ import annotations

from pyrmq.mcp.changes import brokers as broker_changes
from pyrmq.mcp.changes import messages as message_changes
from pyrmq.mcp.changes import topics as topic_changes
from pyrmq.mcp.tool import ChangeTool, ReadTool
from pyrmq.mcp.tools import access, cluster, groups, messages, topics, waiting

READS: tuple[ReadTool, ...] = (
    *cluster.TOOLS, *topics.TOOLS, *groups.TOOLS, *messages.TOOLS, *waiting.TOOLS, *access.TOOLS,
)  # fmt: skip
CHANGES: tuple[ChangeTool, ...] = (
    *topic_changes.CHANGES,
    *broker_changes.CHANGES,
    *message_changes.CHANGES,
)
