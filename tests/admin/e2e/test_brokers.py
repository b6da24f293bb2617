"""mqadmin's commands about brokers and clusters."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from pyrmq import Message, Producer
from pyrmq.admin import Admin
from pyrmq.model.codes import RequestCode
from pyrmq.net.address import format_address
from pyrmq.server import Running
from tests.support.mqadmin import mqadmin
from tests.support.scripted.replicas import DEAD, Replicas, replicas

CLUSTER = "DefaultCluster"
RULE = "=" * 12


@pytest.fixture
def scripted() -> Iterator[Replicas]:
    with replicas() as found:
        yield found


def _address(server: Running) -> str:
    return format_address(server.broker_address)


async def test_cluster_list(embedded: Running) -> None:
    ran = await mqadmin(embedded.namesrv, "clusterList")
    assert ran.code == 0, ran.err
    head, row = ran.lines
    assert head == (
        f"{'#Cluster Name':<22}  {'#Broker Name':<22}  #BID  {'#Addr':<22} {'#Version':<16}  "
        f"{'#InTPS(LOAD)':>16}  {'#OutTPS(LOAD)':>30}  {'#Timer(Progress)':<22}  "
        f"{'#PCWait(ms)':<11}  {'#Hour':<12}  {'#SPACE':<8}  {'#ACTIVATED':<10}"
    )
    cells = row.split()
    assert cells[:5] == [CLUSTER, "broker-a", "0", _address(embedded), "V5_3_3"]
    assert row[row.index("V5_3_3") + 18 :].startswith("     0.00(0,0ms)")
    assert cells[-1] == "true"
    more = await mqadmin(embedded.namesrv, "clusterList", "-m", "-c", CLUSTER)
    assert more.lines[0] == (
        f"{'#Cluster Name':<16}  {'#Broker Name':<32} {'#InTotalYest':>14} {'#OutTotalYest':>14} "
        f"{'#InTotalToday':>14} {'#OutTotalToday':>14}"
    )
    unknown = await mqadmin(embedded.namesrv, "clusterList", "-c", "DefaultCluser")
    assert (unknown.code, unknown.out) == (2, "")
    assert "did you mean DefaultCluster?" in unknown.err
    assert (await mqadmin(embedded.namesrv, "clusterList", "-i", "0")).code == 1


async def test_cells_of_cluster_list(scripted: Replicas) -> None:
    scripted.on_master.says(
        28,
        {
            "table": {
                "putTps": "1.256 2 3", "getTransferredTps": "44.5 0 0",
                "sendThreadPoolQueueSize": "1", "sendThreadPoolQueueHeadWaitTimeMills": "2",
                "pullThreadPoolQueueSize": "3", "pullThreadPoolQueueHeadWaitTimeMills": "4",
                "ackThreadPoolQueueSize": "5", "ackThreadPoolQueueHeadWaitTimeMills": "6",
                "timerReadBehind": "7", "timerOffsetBehind": "8", "timerCongestNum": "25000",
                "timerEnqueueTps": "1.0", "timerDequeueTps": "2.26", "commitLogDiskRatio": "0.25",
                "pageCacheLockTimeMills": "9", "brokerActive": "true",
                "msgPutTotalYesterdayMorning": "10", "msgPutTotalTodayMorning": "30",
                "msgPutTotalTodayNow": "70", "msgGetTotalTodayNow": "5",
            }
        },
    )  # fmt: skip
    scripted.on_slave.says(28, {"table": {"putTps": "none", "timerCongestNum": "x"}})
    ran = await mqadmin(scripted.namesrv, "clusterList", "-c", "C")
    assert ran.code == 3
    assert DEAD in ran.err
    _, master, slave, dead = ran.lines
    for cell in ("1.26(1,2ms)", "44.50(3,4ms|5,6ms)", "7-8(2.5w, 1.0, 2.3)", "0.2500"):
        assert f" {cell} " in master
    assert slave.split()[1:4] == ["broker-a", "1", scripted.slave]
    assert dead.split()[:4] == ["C", "broker-b", "0", DEAD]
    more = await mqadmin(scripted.namesrv, "clusterList", "-m")
    assert more.lines[1].split() == ["C", "broker-a", "20", "0", "40", "5"]


async def test_status_and_configuration(embedded: Running) -> None:
    broker = _address(embedded)
    status = await mqadmin(embedded.namesrv, "brokerStatus", "-b", broker)
    assert f"{'brokerVersionDesc':<32}: V5_3_3" in status.lines
    assert status.lines == sorted(status.lines, key=lambda line: line.split(":")[0].rstrip())
    of_all = await mqadmin(embedded.namesrv, "brokerStatus", "-c", CLUSTER)
    assert f"{broker:<24} {'brokerVersionDesc':<32}: V5_3_3" in of_all.lines
    assert (await mqadmin(embedded.namesrv, "brokerStatus")).code == 1
    nobody = await mqadmin(embedded.namesrv, "brokerStatus", "-b", DEAD)
    assert (nobody.code, nobody.out) == (2, "")
    assert DEAD in nobody.err

    changed = await mqadmin(
        embedded.namesrv, "updateBrokerConfig", "-c", CLUSTER, "-k", "transactionCheckMax",
        "-v", "7",
    )  # fmt: skip
    assert (changed.code, changed.out) == (0, f"update broker config success, {broker}\n")
    config = await mqadmin(embedded.namesrv, "getBrokerConfig", "-b", broker)
    assert config.lines[0] == f"{RULE}{broker}{RULE}"
    assert f"{'transactionCheckMax':<50}=  7" in config.lines
    masters = await mqadmin(embedded.namesrv, "getBrokerConfig", "-c", CLUSTER)
    assert masters.lines[0] == f"{RULE}Master: {broker}{RULE}"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("-c DefaultCluster -k brokerName -v x", 2, "CODE: 16  DESC: nothing was changed"),
        ("-c DefaultCluster -k brokerPermission -v 9", 1, "from 0 to 7"),
        ("-b 127.0.0.1:1 -a true -k transactionCheckMax -v 9", 1, "goes with --clusterName"),
        ("-k transactionCheckMax -v 9", 1, "give one of"),
    ],
)
async def test_configuration_that_is_not_changed(
    embedded: Running, words: str, code: int, said: str
) -> None:
    ran = await mqadmin(embedded.namesrv, "updateBrokerConfig", *words.split())
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err


async def test_which_replicas_are_changed(scripted: Replicas) -> None:
    words = ("updateBrokerConfig", "-c", "C", "-k", "key", "-v", "a=b")
    ran = await mqadmin(scripted.namesrv, *words)
    assert (ran.code, ran.out) == (3, f"update broker config success, {scripted.master}\n")
    assert DEAD in ran.err
    assert scripted.on_master.bodies(25) == [b"key=a=b\n"]
    assert scripted.on_slave.bodies(25) == []
    await mqadmin(scripted.namesrv, *words, "-a", "true")
    assert scripted.on_slave.bodies(25) == [b"key=a=b\n"]


async def test_configuration_of_slaves(scripted: Replicas) -> None:
    ran = await mqadmin(scripted.namesrv, "getBrokerConfig", "-c", "C")
    assert ran.code == 3
    assert f"{RULE}My Master: {scripted.master}=====Slave: {scripted.slave}{RULE}" in ran.lines


async def test_consume_stats(embedded: Running) -> None:
    broker = _address(embedded)
    async with Producer("PG", namesrv=embedded.namesrv) as producer:
        sent = await producer.send(Message("T", b"x"))
        for _ in range(2):
            await producer.send(Message("T", b"x"), queue=sent.queue)
    async with Admin(embedded.namesrv) as admin:
        await admin.link.ask(
            broker,
            RequestCode.UPDATE_CONSUMER_OFFSET,
            {"consumerGroup": "G", "topic": "T", "queueId": sent.queue.queue_id, "commitOffset": 1},
        )
        await admin.link.ask(
            broker,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
            body=json.dumps({"groupName": "G"}).encode(),
        )
    ran = await mqadmin(embedded.namesrv, "brokerConsumeStats", "-b", broker)
    assert ran.code == 0, ran.err
    (row,) = [line for line in ran.lines if line.startswith("T ")]
    assert row[:66] == f"{'T':<64}  "
    assert row.split()[1:7] == ["G", "broker-a", str(sent.queue.queue_id), "3", "1", "2"]
    assert ran.lines[-1] == "Diff Total: 2"
    above = await mqadmin(embedded.namesrv, "brokerConsumeStats", "-b", broker, "-l", "3")
    assert above.lines[1:] == ["", "Diff Total: 2"]
    assert (await mqadmin(embedded.namesrv, "brokerConsumeStats", "-b", DEAD)).code == 2


@pytest.mark.parametrize("name", ["cleanExpiredCQ", "cleanUnusedTopic", "deleteExpiredCommitLog"])
async def test_cleaning(embedded: Running, name: str) -> None:
    for where in ((), ("-b", _address(embedded)), ("-c", CLUSTER)):
        ran = await mqadmin(embedded.namesrv, name, *where)
        assert (ran.code, ran.out) == (0, "success\n")
    nobody = await mqadmin(embedded.namesrv, name, "-b", DEAD)
    assert (nobody.code, nobody.out) == (2, "false\n")
    assert (await mqadmin(embedded.namesrv, name, "-b", DEAD, "-c", CLUSTER)).code == 1


async def test_ha_status(scripted: Replicas) -> None:
    slave = {
        "addr": "10.0.0.2:1", "slaveAckOffset": 90, "diff": 10, "inSync": False,
        "transferredByteInSecond": 1536, "transferFromWhere": 80,
    }  # fmt: skip
    scripted.on_master.says(
        907,
        {"master": True, "masterCommitLogMaxOffset": 100, "haConnectionInfo": [slave]},
    )
    ran = await mqadmin(scripted.namesrv, "haStatus", "-b", scripted.master)
    assert ran.code == 0, ran.err
    assert ran.lines[:5] == [
        "", f"#MasterAddr\t{scripted.master}", "#MasterCommitLogMaxOffset\t100", "#SlaveNum\t1",
        "#InSyncSlaveNum\t0",
    ]  # fmt: skip
    assert ran.lines[6] == (
        f"{'10.0.0.2:1':<32}  {90:<16} {10:>16} {'1.50':>16} {'Fall Behind':>16} {80:>16}"
    )
    client = {"masterAddr": "m:1", "maxOffset": 5, "masterFlushOffset": 4, "lastReadTimestamp": 0}
    scripted.on_slave.says(907, {"master": False, "haClientRuntimeInfo": client})
    of_slave = await mqadmin(scripted.namesrv, "haStatus", "-b", scripted.slave)
    assert of_slave.lines[1:3] == ["#MasterAddr\tm:1", "#CommitLogMaxOffset\t5"]
    assert of_slave.lines[-1] == "#MasterFlushOffset\t4"
    assert (await mqadmin(scripted.namesrv, "haStatus", "-c", "C")).code == 3


async def test_epochs(scripted: Replicas, embedded: Running) -> None:
    scripted.on_master.says(
        1007,
        {
            "clusterName": "C", "brokerName": "broker-a", "brokerId": 0, "maxOffset": 900,
            "epochList": [
                {"epoch": 1, "startOffset": 0, "endOffset": 500},
                {"epoch": 2, "startOffset": 500, "endOffset": 2**63 - 1},
            ],
        },
    )  # fmt: skip
    ran = await mqadmin(scripted.namesrv, "getBrokerEpoch", "-b", "broker-a")
    assert ran.code == 0, ran.err
    assert ran.lines[:7] == [
        "", "#clusterName\tC", "#brokerName\tbroker-a", f"#brokerAddr\t{scripted.master}",
        "#brokerId\t0", "#Epoch: EpochEntry{epoch=1, startOffset=0, endOffset=500}",
        "#Epoch: EpochEntry{epoch=2, startOffset=500, endOffset=900}",
    ]  # fmt: skip
    refused = await mqadmin(embedded.namesrv, "getBrokerEpoch", "-c", CLUSTER)
    assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)
    assert refused.err.startswith("CODE: 1  DESC: request type 1007 not supported")
    assert _address(embedded) in refused.err


async def test_what_brokers_may_have(scripted: Replicas) -> None:
    """Requests that pyrmq's broker refuses."""
    master = ("-b", scripted.master)
    row = {"coldAcc": 5, "createTimeMills": 1_000, "lastColdReadTimeMills": 2_000}
    scripted.on_master.says(2003, {"runtimeTable": {"G": row}})
    cold = await mqadmin(scripted.namesrv, "getColdDataFlowCtrInfo", *master)
    assert cold.lines[0] == f" {RULE}{scripted.master}{RULE}"
    shown = json.loads("\n".join(cold.lines[1:]))["runtimeTable"]["G"]
    assert set(shown) == {"coldAcc", "createTimeFormat", "lastColdReadTimeFormat"}
    runs = [
        (("updateColdDataFlowCtrGroupConfig", *master, "-g", "G", "-v", "9"),
         f"updateColdDataFlowCtrGroupConfig success, {scripted.master}"),
        (("removeColdDataFlowCtrGroupConfig", *master, "-g", "G"),
         f"remove broker cold read threshold success, {scripted.master}"),
        (("resetMasterFlushOffset", *master, "-o", "7"), "reset master flush offset to 7 success"),
        (("addBroker", "-c", scripted.master, "-b", "/b.conf"),
         f"add broker to {scripted.master} success"),
        (("removeBroker", "-c", scripted.master, "-b", "C:broker-a:1"),
         f"remove broker from {scripted.master} success"),
    ]  # fmt: skip
    for words, said in runs:
        ran = await mqadmin(scripted.namesrv, *words)
        assert (ran.code, ran.out) == (0, f"{said}\n"), ran.err
    scripted.on_master.says(2004, remark="set done")
    mode = await mqadmin(scripted.namesrv, "setCommitLogReadAheadMode", *master, "-m", "1")
    assert mode.lines[1] == "commitLog set readAhead mode rstStrset done"
    asked = {c.code: c for c in scripted.on_master.asked}
    assert (asked[2001].body, asked[2002].body) == (b"G=9\n", b"G")
    assert asked[908].ext == {"masterFlushOffset": "7"}
    assert asked[902].ext == {"configPath": "/b.conf"}
    assert asked[903].ext == {
        "brokerClusterName": "C", "brokerName": "broker-a", "brokerId": "1",
    }  # fmt: skip
    assert asked[2004].ext == {"READ_AHEAD_MODE": "1"}


@pytest.mark.parametrize(
    "words",
    [
        "removeBroker -c 127.0.0.1:1 -b C:b:-1",
        "removeBroker -c 127.0.0.1:1 -b C:b",
        "setCommitLogReadAheadMode -b 127.0.0.1:1 -m 2",
        "resetMasterFlushOffset -b 127.0.0.1:1 -o x",
        "haStatus -c C -i x",
        "clusterRT -a 0",
        "updateColdDataFlowCtrGroupConfig -c C -g G -v much",
    ],
)
async def test_what_cannot_be_meant(words: str) -> None:
    ran = await mqadmin("127.0.0.1:1", *words.split())
    assert (ran.code, ran.out) == (1, "")


async def test_round_trips(embedded: Running) -> None:
    ran = await mqadmin(embedded.namesrv, "clusterRT", "-a", "3", "-i", "0", "-r", "2")
    assert ran.code == 0, ran.err
    assert ran.lines[0] == (
        f"{'#Cluster Name':<24}  {'#Broker Name':<24}  {'#RT':<4}  {'#successCount':<8}  #failCount"
    )
    for row in ran.lines[1:]:
        cluster, broker, _, done, failed = row.split()
        assert (cluster, broker, done, failed) == (CLUSTER, "broker-a", "3", "0")
    assert len(ran.lines) == 3
    log = await mqadmin(
        embedded.namesrv, "clusterRT", "-a", "1", "-r", "1", "-p", "true", "-m", "room"
    )
    (line,) = log.lines
    assert line.split("|")[1:4] == ["room", CLUSTER, "broker-a"]
    assert line.split("|")[4].isdecimal()
    unknown = await mqadmin(embedded.namesrv, "clusterRT", "-c", "X", "-r", "1")
    assert unknown.code == 2
    assert "there is no cluster X" in unknown.err


async def test_send_status(embedded: Running) -> None:
    ran = await mqadmin(embedded.namesrv, "sendMsgStatus", "-b", "broker-a", "-c", "2", "-s", "12")
    assert ran.code == 0, ran.err
    assert len(ran.lines) == 2
    for at, line in enumerate(ran.lines, 1):  # the first message warms up
        assert "ms, SendResult=SendResult [sendStatus=SEND_OK, msgId=" in line
        assert f"queueOffset={at}, " in line
    async with Admin(embedded.namesrv) as admin:
        (queue,) = await admin.messages.queues("broker-a")
        assert [len((await admin.messages.at(queue, n)).body) for n in range(3)] == [22, 22, 22]
    nowhere = await mqadmin(embedded.namesrv, "sendMsgStatus", "-b", "a b")
    assert (nowhere.code, nowhere.out) == (2, "")
