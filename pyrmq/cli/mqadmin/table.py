"""The names of mqadmin's commands, the file that has each, and what it does in a line."""

from __future__ import annotations

COMMANDS: dict[str, tuple[str, str]] = {
    "topicList": ("topics", "Fetch all topic list from name server."),
    "consumerProgress": (
        "progress",
        "How far consumer groups are, and what they have not consumed.",
    ),
    "consumerStatus": ("progress", "How the members of a consumer group run."),
    "getConsumerConfig": ("groups", "The configuration of a consumer group on each broker."),
    "updateSubGroup": ("groups", "Create or change a consumer group."),
    "updateSubGroupList": ("groups", "Create or change the consumer groups of a file."),
    "deleteSubGroup": ("groups", "Delete a consumer group."),
    "setConsumeMode": ("groups", "Say whether a consumer group pulls a topic or pops it."),
    "consumerConnection": ("connections", "Who is connected of a consumer group, and its topics."),
    "producerConnection": ("connections", "Who is connected of a producer group."),
    "producer": ("connections", "All producers that a broker knows."),
    "resetOffsetByTime": ("offsets", "Move a consumer group to a time."),
    "skipAccumulatedMessage": ("offsets", "Move a consumer group behind the last messages."),
    "cloneGroupOffset": ("offsets", "Give a consumer group the offsets of another."),
    "getConsumerStatus": ("offsets", "How far the members of a group say that they are."),
}
"""By name: the module below `pyrmq.cli.mqadmin` whose COMMANDS has it, and its line in the list."""
