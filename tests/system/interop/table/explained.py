"""Differences that are meant, by what a command line begins with or holds: see `Case.differs`."""

from __future__ import annotations

import re
from dataclasses import replace

from .case import Case, Differs, server, tool

ALL = r"(?s)\A.*\Z"
RULES: tuple[tuple[str, Differs], ...] = (
    (r"NoCluster", tool("An unknown cluster is a failure; the error names similar clusters. The "
                        "original says so on stdout, continues without brokers, and may print "
                        "that it succeeded.", ALL)),
    (r"^topicRoute(?!.*-l)|^queryCq", tool("JSON is strict: keys are texts, and it is indented by "
     "two blanks. The original writes numbers as keys.", ALL)),
    (r"^(updateTopicList|updateSubGroupList) -c", tool("The original prints its usage after it "
     "succeeded.", ALL)),
    (r"^updateTopicList .*none\.json", tool("A file that is not there is a wrong command line, "
     "exit code 1.", ALL)),
    (r"^updateTopic .*-a -no\.such", tool("A value may begin with a dash. The original takes it "
     "for an option.", ALL)),
    (r"^updateTopic .*-a \+", tool("Attributes are shown as they were given. The original prints "
     "its own table of them.", r"attributes=.*", "attributes=…")),
    (r"^updateTopic .*-o true", tool("An order configuration that is not there yet is none. The "
     "original fails, or goes on after it printed a trace.", ALL)),
    (r"^updateTopicPerm -b 127\.0\.0\.1:1 ", tool("A broker that has not got the topic is a "
     "failure; the original prints a line.", ALL)),
    (r"^allocateMQ", tool("Queues are in order, and are shared as consumers share them; the "
     "original takes them from a set.", ALL)),
    (r"^statsAll", tool("Topics and groups are sorted; rates are those of the moment.", ALL)),
    (r"^(clusterList|brokerStatus)", tool("Figures of the moment, and of the machine.", ALL)),
    (r"^(clusterList|brokerStatus|haStatus)", server("Figures of the moment; keys of figures that "
     "are not taken are missing (differences.md).", ALL)),
    (r"^clusterRT", tool("Times of sends.", ALL)),
    (r"^clusterRT", server("Times of sends.", ALL)),
    (r"^brokerConsumeStats .*-[lot] ", tool("The original fails with these options in the process "
     "that ran it before.", ALL)),
    (r"^getBrokerConfig", tool("Keys are in the order of the broker; the original has them from a "
     "table without one.", ALL)),
    (r"^getBrokerConfig", server("Each broker has keys of its own (configuration.md).", ALL)),
    (r"^cleanExpiredCQ -c", tool("An unknown cluster is a failure.", ALL)),
    (r"^(sendMsgStatus|sendMessage|checkMsgSendRT|queryMsgById .*-s true)", tool("Ids that are "
     "made at run time, and times. The original fails with some options in the process that ran "
     "it before.", ALL)),
    (r"^(sendMsgStatus|sendMessage|checkMsgSendRT|queryMsgById .*-s true)", server("Ids that are "
     "made at run time, and times.", ALL)),
    (r"^setCommitLogReadAheadMode .*-m 7", tool("A wrong mode is a wrong command line, exit code "
     "1.", ALL)),
    (r"^queryMsgBy(Id|UniqueKey|Offset) .*-g", tool("The original does not ask the consumer that "
     "its process has seen before; one that is not there is a failure here.", ALL)),
    (r"^queryMsgBy(Id|UniqueKey|Offset)", tool("Properties are in the order of the message, groups "
     "are sorted, a line each; the original fails with -a in the process that ran it before. What "
     "is not there is a failure.", ALL)),
    (r"^queryMsgBy(Id|UniqueKey|Offset)", server("Offsets in the log and sizes depend on what else "
     "a broker stores; groups of the system differ.", ALL)),
    (r"^queryMsgByKey", tool("Messages are sorted by the time they were stored.", ALL)),
    (r"^queryMsgTraceById", tool("Times of the moment.", ALL)),
    (r"^queryMsgTraceById", server("Times of the moment.", ALL)),
    (r"^(printMsg|printMsgByQueue|consumeMessage)", tool("Queues are sorted, bodies are text, and "
     "filtered messages are not reported for each pull; the original fails with some options "
     "in the process that ran it before.", ALL)),
    (r"^(printMsg|printMsgByQueue|consumeMessage)", server("Offsets in the log and sizes depend on "
     "what else a broker stores.", ALL)),
    (r"^queryCq", server("Offsets in the log depend on what else a broker stores.", ALL)),
    (r"^(consumerProgress|consumerConnection|producer)\b", tool("Rows are sorted; ids of clients "
     "are made at run time.", ALL)),
    (r"^(consumerProgress|consumerConnection|producer)\b", server("Groups of the system differ; "
     "ids of clients are made at run time.", ALL)),
    (r"^getConsumerConfig .*(NoGroup|Doomed)", tool("A group that no broker has is a failure; the "
     "original prints nothing.", r"\Aended: .*", "ended: …")),
    (r"^consumerStatus", tool("Properties are sorted; figures of the moment.", ALL)),
    (r"^consumerStatus", server("Figures of the moment.", ALL)),
    (r"^producerConnection", tool("A producer that has just begun is not known to brokers before "
     "its first heartbeat.", ALL)),
    (r"^cloneGroupOffset -s NoGroup", tool("The original fails for a group without members.", ALL)),
    (r"^(wipeWritePerm|addWritePerm)", tool("How many topics there are depends on what ran "
     "before.", r"\d+$", "<n>")),
    (r"^(wipeWritePerm|addWritePerm)", server("How many topics a broker has.", r"\d+$", "<n>")),
    (r"^(topicList|topicStatus|topicRoute)", server("Topics of the system differ.", ALL)),
    (r"^topicList", tool("Topics are sorted.", ALL)),
    (r"^export", tool("Members are sorted, and those of other versions are kept.", ALL)),
    (r"^export", server("Configurations, topics and figures of another broker.", ALL)),
    (r"User|Acl", server("pyrmq's broker keeps no users and no access lists: it refuses.", ALL)),
    (r"ColdData|ReadAhead|resetMasterFlushOffset|addBroker|removeBroker|exportPop|getBrokerEpoch",
     server("pyrmq's broker refuses what it cannot do, and says why (operations.md).", ALL)),
    (r"^updateTopic .*(-p 9|-a queue\.type)|^updateBrokerConfig .*brokerPermission|"
     r"^updateOrderConf .*put|^setConsumeMode .*OTHER|^resetOffsetByTime .*someday",
     tool("An invalid value is a usage error, with exit code 1, before anything is sent.",
          r"\Aended: .*", "ended: …")),
    (r"^updateOrderConf .*get", tool("For a topic without an order configuration it prints a "
                                     "sentence without a code.", r"\Aended: .*", "ended: …")),
    (r"^(resetOffsetByTime|skipAccumulatedMessage|brokerConsumeStats)",
     tool("Queues are sorted.", ALL)),
    (r"^(resetOffsetByTime|skipAccumulatedMessage|brokerConsumeStats)",
     server("The rows of a table have no order; groups of the system differ.", ALL)),
    (r"^statsAll", server("The rows of a table have no order; figures of the moment.", ALL)),
    (r"^updateBrokerConfig .*sendThreadPoolQueueCapacity", server("This key is not changed while "
     "the broker runs (configuration.md).", ALL)),
    (r"^getColdDataFlowCtrInfo", tool("Members are in the order of the answer, indented by two "
     "blanks.", ALL)),
    (r"^queryMsgByKey -t \{half\}", server("RocketMQ's broker stores a half again for each check "
     "of it.", ALL)),
    (r"^getConsumerStatus", server("Ids of clients are made at run time.", ALL)),
    (r"^updateSubGroup .*bad/group", tool("A name that cannot be one is refused.", ALL)),
    (r"^updateSubGroup .*bad/group", server("A name that cannot be one is refused.", ALL)),
    (r"^getNamesrvConfig", server("Each name server has keys of its own.", ALL)),
    (r"^getNamesrvConfig", tool("Keys are sorted.", ALL)),
    (r"^producerConnection", server("A producer that has just begun is not known to brokers before "
     "its first heartbeat.", ALL)),
    (r"StaticTopic", tool("Static topics are refused.", ALL)),
)  # fmt: skip


def explained(case: Case) -> Case:
    """The case with the rules that are for it, those of tools and of servers."""
    found = [one for pattern, one in RULES if re.search(pattern, case.line)]
    return replace(case, differs=(*case.differs, *found))
