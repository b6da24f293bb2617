"""The names of mqadmin's commands, the file that has each, and what it does in a line."""

from __future__ import annotations

COMMANDS: dict[str, tuple[str, str]] = {
    "updateTopic": ("topics", "Create a topic, or replace its configuration."),
    "deleteTopic": ("topics", "Delete a topic from brokers and name servers."),
    "topicRoute": ("topics", "Where a topic is."),
    "topicStatus": ("topics", "How far the queues of a topic are."),
    "topicClusterList": ("topics", "The clusters that have a topic."),
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
