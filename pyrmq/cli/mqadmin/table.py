"""The names of mqadmin's commands, the file that has each, and what it does in a line."""

from __future__ import annotations

COMMANDS: dict[str, tuple[str, str]] = {
    "topicList": ("topics", "Fetch all topic list from name server."),
}
"""By name: the module below `pyrmq.cli.mqadmin` whose COMMANDS has it, and its line in the list."""
