"""Groups, offsets and connections."""

from ..case import Case

LIST = """[{"groupName":"Group-1","consumeEnable":true,"retryMaxTimes":3},
{"groupName":"Group-2"}]"""

CASES = (
    Case("consumerProgress -g Behind"),
    Case("consumerProgress -g Behind -t Asked"),
    Case("consumerProgress -g Live -s true"),
    Case("consumerProgress -g Target"),
    Case("consumerProgress -g NoGroup"),
    Case("consumerProgress", unordered=True),
    Case("consumerStatus -g Live"),
    Case("consumerStatus -g Live -i {client}"),
    Case("consumerStatus -g Live -i {client} -s -b {broker}"),
    Case("consumerStatus -g Live -i nobody"),
    Case("consumerStatus -g Behind"),
    Case("getConsumerStatus -g Live -t Asked", unregistered=True),
    Case("getConsumerConfig -g Behind"),
    Case("getConsumerConfig -g NoGroup"),
    Case("updateSubGroup -b {broker} -g Made-group"),
    Case(
        "updateSubGroup -c DefaultCluster -g Made-group -s false -m true -d true -o true -q 2"
        " -r 3 -i 1 -w 2 -a false"
    ),
    Case("getConsumerConfig -g Made-group"),
    Case("updateSubGroup -b {broker} -g bad/group"),
    Case("updateSubGroup -g Made-group"),
    Case("updateSubGroupList -c DefaultCluster -f {dir}/groups.json", files={"groups.json": LIST}),
    Case("updateSubGroupList -b {broker} -f {dir}/groups.json"),
    Case("getConsumerConfig -g Group-1"),
    Case("setConsumeMode -b {broker} -t Asked -g Target -m POP -q 2"),
    Case("setConsumeMode -c DefaultCluster -t Asked -g Target -m PULL"),
    Case("setConsumeMode -b {broker} -t Asked -g Target -m OTHER"),
    Case("cloneGroupOffset -s Behind -d Target -t Asked"),
    Case("consumerProgress -g Target -t Asked"),
    Case("cloneGroupOffset -s NoGroup -d Target -t Asked"),
    Case("resetOffsetByTime -g Target -t Asked -s 0"),
    Case("resetOffsetByTime -g Target -t Asked -s now"),
    Case("resetOffsetByTime -g Target -t Asked -s now -b {broker} -q 1 -o 1"),
    Case("resetOffsetByTime -g Target -t Asked -s 2100-01-01#00:00:00:000 -f false"),
    Case("resetOffsetByTime -g Target -t Asked -s someday"),
    Case("resetOffsetByTime -g NoGroup -t Asked -s now"),
    Case("resetOffsetByTime -g Target -t NoTopic -s now"),
    Case("skipAccumulatedMessage -g Target -t Asked"),
    Case("skipAccumulatedMessage -g Target -t Asked -f false"),
    Case("consumerConnection -g Live"),
    Case("consumerConnection -g Live -b {broker}"),
    Case("consumerConnection -g Behind"),
    Case("consumerConnection -g NoGroup"),
    Case("producerConnection -g Producers -t Traced"),
    Case("producerConnection -g NoGroup -t Traced"),
    Case("producer -b {broker}", unordered=True),
    Case("deleteSubGroup -b {broker} -g Doomed-1"),
    Case("deleteSubGroup -b {broker} -g Doomed-2 -r true"),
    Case("deleteSubGroup -c DefaultCluster -g Doomed-3 -r true"),
    Case("getConsumerConfig -g Doomed-3"),
    Case("deleteSubGroup -g Doomed-3"),
    # It takes any queue: what comes behind it must not depend on offsets.
    Case("queryMsgById -t Asked -i {offset-id-3} -s true"),
)
