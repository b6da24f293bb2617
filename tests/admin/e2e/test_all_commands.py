"""All of the original's commands are there, and each says what it takes."""

from __future__ import annotations

import io

import pytest

from pyrmq.cli.mqadmin.output import Output
from pyrmq.cli.mqadmin.run import COMMANDS, find, main
from tests.admin.e2e.original_options import OPTIONS

NAMES = tuple(
    """
    addBroker addWritePerm allocateMQ brokerConsumeStats brokerStatus checkMsgSendRT
    checkRocksdbCqWriteProgress cleanBrokerMetadata cleanExpiredCQ cleanUnusedTopic
    cloneGroupOffset clusterList clusterRT consumeMessage consumer consumerConnection
    consumerProgress consumerStatus copyAcl copyUser createAcl createUser DecodeMessageId
    deleteAcl deleteExpiredCommitLog deleteKvConfig deleteSubGroup deleteTopic deleteUser
    dumpCompactionLog electMaster exportConfigs exportMetadata exportMetadataInRocksDB
    exportMetrics exportPopRecord getAcl getBrokerConfig getBrokerEpoch getColdDataFlowCtrInfo
    getConsumerConfig getConsumerStatus getControllerConfig getControllerMetaData getNamesrvConfig
    getSyncStateSet getUser haStatus listAcl listUser printMsg printMsgByQueue producer
    producerConnection queryCq queryMsgById queryMsgByKey queryMsgByOffset queryMsgByUniqueKey
    queryMsgTraceById remappingStaticTopic removeBroker removeColdDataFlowCtrGroupConfig
    resetMasterFlushOffset resetOffsetByTime resetOffsetByTimeOld rocksDBConfigToJson sendMessage
    sendMsgStatus setCommitLogReadAheadMode setConsumeMode skipAccumulatedMessage startMonitoring
    statsAll topicClusterList topicList topicRoute topicStatus updateAcl updateBrokerConfig
    updateColdDataFlowCtrGroupConfig updateControllerConfig updateKvConfig updateNamesrvConfig
    updateOrderConf updateStaticTopic updateSubGroup updateSubGroupList updateTopic
    updateTopicList updateTopicPerm updateUser wipeWritePerm
    """.split()  # noqa: SIM905
)
"""Of RocketMQ 5.3's mqadmin: 89 that it registers, and 4 classes that it does not."""
OLDER = (
    "updateAclConfig", "deleteAclConfig", "getAclConfig", "clusterAclConfigVersion",
    "updateGlobalWhiteAddr",
)  # fmt: skip
"""Of RocketMQ 4.9's: those of ACL 1.0."""


def test_every_command_is_there() -> None:
    assert len(NAMES) == 93
    assert sorted(COMMANDS) == sorted(NAMES + OLDER)


@pytest.mark.parametrize("name", NAMES + OLDER)
def test_help_of_a_command(name: str) -> None:
    command = find(name)
    assert command is not None
    assert command.name == name
    for words in ([name, "-h"], ["help", name], [name.lower(), "--help", "--nonsense"]):
        out, err = io.StringIO(), io.StringIO()
        code = main(words, Output(out, err))
        if words[-1] == "--nonsense":
            continue
        assert (code, err.getvalue()) == (0, "")
        lines = out.getvalue().splitlines()
        assert lines[0].startswith(f"usage: mqadmin {name} ")
        for option in command.all_options:
            (line,) = [one for one in lines if one.startswith(f" {option.names}")]
            assert ("(required" in line) == option.required, line
            assert option.help in line


@pytest.mark.parametrize("name", NAMES + OLDER)
def test_a_command_line_that_cannot_be_meant(name: str) -> None:
    out, err = io.StringIO(), io.StringIO()
    assert main([name, "--nonsense", "x", "-n", "127.0.0.1:1"], Output(out, err)) == 1
    assert out.getvalue() == ""
    assert "Unrecognized option: --nonsense" in err.getvalue()
    assert "Traceback" not in err.getvalue()


@pytest.mark.parametrize("name", OPTIONS)
def test_the_options_of_the_original(name: str) -> None:
    command = find(name)
    assert command is not None
    own = {(o.short, o.long.replace(" ", "")) for o in command.all_options}
    for option in OPTIONS[name].split():
        short, _, long = option.partition("/")
        if short.startswith("--"):
            assert short[2:] in {long for _, long in own}, option
        elif long:
            assert (short[1:], long[2:]) in own, option
        else:
            assert short[1:] in {short for short, _ in own}, option
