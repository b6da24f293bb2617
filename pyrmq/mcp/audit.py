"""The audit of changes: a line in the log for each step, with who, what and the outcome."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.mcp.shown import Cutting

log = logging.getLogger("pyrmq.mcp.audit")
MAX_ARGUMENTS = 2048
"""Bytes of a call's arguments in a line."""


class Audit:
    """What one client does. `user`: the access key that signs the requests."""

    def __init__(self, user: str) -> None:
        self.user = user

    def note(
        self, step: str, tool: str, arguments: Mapping[str, Any], client: str, said: object = ""
    ) -> None:
        """step: planned, asked, declined, done, partly, failed or interrupted."""
        cutting = Cutting()
        shown = {k: v for k, v in arguments.items() if v is not None and v != ""}
        text = cutting.fit(cutting.plain(shown), MAX_ARGUMENTS)
        log.info(
            "change %s: %s %s%s",
            escape(step),
            escape(tool),
            escape(text),
            escape(f": {str(said)[:512]}" if said else ""),
            extra=about(client=client, user=self.user or "unsigned"),
        )
