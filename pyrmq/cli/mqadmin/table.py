"""The names of mqadmin's commands, the file that has each, and what it does in a line."""

from __future__ import annotations

COMMANDS: dict[str, tuple[str, str]] = {
    "topicList": ("topics", "Fetch all topic list from name server."),
    "queryMsgById": ("message_queries", "Query a message by its offset id, or its unique id."),
    "queryMsgByKey": ("message_queries", "Query messages by a key."),
    "queryMsgByUniqueKey": ("message_queries", "Query a message by its unique id."),
    "queryMsgByOffset": ("message_queries", "Query a message by its queue and offset."),
    "queryMsgTraceById": ("message_traces", "Query what clients did with a message."),
    "DecodeMessageId": ("message_queries", "Say what a unique message id holds."),
    "printMsg": ("message_streams", "Print the messages of a topic."),
    "printMsgByQueue": ("message_streams", "Print the messages of a queue, or count tags."),
    "consumeMessage": ("message_streams", "Read messages of a topic, the newest of each queue."),
    "sendMessage": ("message_sends", "Send a message."),
    "checkMsgSendRT": ("message_sends", "Measure how long sends to each queue take."),
}
"""By name: the module below `pyrmq.cli.mqadmin` whose COMMANDS has it, and its line in the list."""
