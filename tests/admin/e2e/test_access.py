"""Users, access lists, controllers and RocksDB: what Apache RocketMQ's servers are sent."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from pyrmq.admin.acls import Acl, Entry
from pyrmq.admin.users import User
from pyrmq.net.address import format_address
from pyrmq.server import Running
from tests.support.mqadmin import admin, mqadmin
from tests.support.scripted.replicas import DEAD, Replicas, replicas
from tests.support.wire import Command

ALICE = {"username": "alice", "password": "secret", "userType": "Normal", "userStatus": "enable"}
ACL = {
    "subject": "User:alice",
    "policies": [
        {
            "policyType": "Custom",
            "entries": [
                {"resource": "Topic:T", "actions": ["Pub", "Sub"], "sourceIps": ["10.0.0.0/8"],
                 "decision": "Allow"},
                {"resource": "Group:*", "actions": ["Sub"], "decision": "Deny"},
            ],
        }
    ],
}  # fmt: skip


@pytest.fixture
def cluster() -> Iterator[Replicas]:
    with replicas() as scripted:
        yield scripted


def _asked(scripted: Replicas, code: int) -> list[Command]:
    return [c for c in scripted.on_master.asked if c.code == code]


async def test_changes_of_users(cluster: Replicas) -> None:
    one = ("-b", cluster.master)
    made = await mqadmin(
        cluster.namesrv, "createUser", *one, "-u", "alice", "-p", "secret", "-t", "Super"
    )
    assert (made.code, made.lines) == (0, [f"create user to {cluster.master} success."])
    (asked,) = _asked(cluster, 3001)
    assert asked.ext["username"] == "alice"
    assert json.loads(asked.body) == {
        "username": "alice", "password": "secret", "userType": "Super",
    }  # fmt: skip
    changed = await mqadmin(cluster.namesrv, "updateUser", *one, "-u", "alice", "-s", "disable")
    assert changed.lines == [f"update user to {cluster.master} success."]
    assert json.loads(_asked(cluster, 3002)[0].body) == {
        "username": "alice", "userStatus": "disable",
    }  # fmt: skip
    gone = await mqadmin(cluster.namesrv, "deleteUser", "-c", "C", "-u", "alice")
    assert gone.code == 3
    assert gone.lines == [
        f"delete user to {cluster.master} success.", f"delete user to {cluster.slave} success.",
    ]  # fmt: skip
    assert DEAD in gone.err
    for words in (("-s", "disable", "-p", "x"), (), ("-t", "Emperor")):
        ran = await mqadmin(cluster.namesrv, "updateUser", *one, "-u", "alice", *words)
        assert ran.code == 1


async def test_users_that_are_shown(cluster: Replicas) -> None:
    one = ("-b", cluster.master)
    none = await mqadmin(cluster.namesrv, "getUser", *one, "-u", "bob")
    assert (none.code, none.out) == (0, "")
    cluster.on_master.says(3004, ALICE)
    got = await mqadmin(cluster.namesrv, "getUser", *one, "-u", "alice")
    assert got.lines[0].split() == ["#UserName", "#Password", "#UserType", "#UserStatus"]
    assert got.lines[1].split() == ["alice", "secret", "Normal", "enable"]
    cluster.on_master.says(3005, [ALICE, {"username": "Bob"}])
    listed = await mqadmin(cluster.namesrv, "listUser", "-c", "C", "-f", "x")
    assert listed.code == 3
    assert listed.lines[-1] == f"get user from {cluster.master} success."
    assert _asked(cluster, 3005)[0].ext["filter"] == "x"
    tree = await admin(cluster.namesrv, "user", "list", *one, "-o", "json")
    assert [u["name"] for u in json.loads(tree.out)] == ["Bob", "alice"]
    assert "secret" not in tree.out
    assert "secret" not in repr(User("alice", "secret"))


async def test_a_password_from_stdin(cluster: Replicas) -> None:
    ran = await admin(
        cluster.namesrv, "user", "create", "alice", "-b", cluster.master, stdin="hush\n"
    )
    assert ran.code == 0, ran.err
    assert json.loads(_asked(cluster, 3001)[0].body)["password"] == "hush"
    assert "hush" not in ran.out + ran.err
    words = ("user", "create", "alice", "-b", cluster.master)
    assert (await admin(cluster.namesrv, *words, stdin="")).code == 1


async def test_copies(cluster: Replicas) -> None:
    cluster.on_master.says(3005, [ALICE])
    cluster.on_master.says(3010, [ACL])
    words = ("-f", cluster.master, "-t", cluster.slave)
    copied = await mqadmin(cluster.namesrv, "copyUser", *words)
    assert copied.lines == [f"copy user of alice from {cluster.master} to {cluster.slave} success."]
    made = [c for c in cluster.on_slave.asked if c.code == 3001]
    assert [json.loads(c.body) for c in made] == [ALICE]
    copied = await mqadmin(cluster.namesrv, "copyAcl", *words)
    assert copied.code == 0
    made = [c for c in cluster.on_slave.asked if c.code == 3006]
    assert [json.loads(c.body) for c in made] == [ACL]
    missing = await mqadmin(cluster.namesrv, "copyUser", *words, "-u", "nobody")
    assert missing.code == 2
    assert "has no user nobody" in missing.err
    known = [c for c in cluster.on_slave.asked if c.code in (3002, 3007)]
    assert known == []
    cluster.on_slave.says(3004, ALICE)
    assert (await admin(
        cluster.namesrv, "user", "copy", "--from", cluster.master, "--to", cluster.slave
    )).code == 0  # fmt: skip
    assert [c.code for c in cluster.on_slave.asked if c.code in (3002, 3007)] == [3002]


async def test_access_lists(cluster: Replicas) -> None:
    one = ("-b", cluster.master)
    entry = ("-s", "User:alice", "-r", "Topic:T,Group:*", "-a", "Pub,Sub", "-d", "Allow")
    made = await mqadmin(cluster.namesrv, "createAcl", *one, *entry, "-i", "10.0.0.1")
    assert made.lines == [f"create acl to {cluster.master} success."]
    (asked,) = _asked(cluster, 3006)
    assert asked.ext["subject"] == "User:alice"
    common = {"actions": ["Pub", "Sub"], "sourceIps": ["10.0.0.1"], "decision": "Allow"}
    assert json.loads(asked.body) == {
        "subject": "User:alice",
        "policies": [{"entries": [{"resource": r, **common} for r in ("Topic:T", "Group:*")]}],
    }
    assert (await mqadmin(cluster.namesrv, "updateAcl", *one, *entry)).code == 0
    gone = await mqadmin(cluster.namesrv, "deleteAcl", *one, "-s", "User:alice", "-r", "Topic:T")
    assert gone.lines == [f"delete acl to {cluster.master} success."]
    assert _asked(cluster, 3008)[0].ext["resource"] == "Topic:T"
    cluster.on_master.says(3009, ACL)
    got = await mqadmin(cluster.namesrv, "getAcl", *one, "-s", "User:alice")
    assert [line.split() for line in got.lines[1:]] == [
        ["User:alice", "Custom", "Topic:T", "[Pub,", "Sub]", "[10.0.0.0/8]", "Allow"],
        ["User:alice", "Custom", "Group:*", "[Sub]", "null", "Deny"],
    ]
    cluster.on_master.says(3010, [ACL])
    tree = await admin(cluster.namesrv, "acl", "list", *one, "--subject", "ali", "-o", "json")
    assert [r["resource"] for r in json.loads(tree.out)] == ["Topic:T", "Group:*"]
    assert _asked(cluster, 3010)[0].ext["subjectFilter"] == "ali"
    assert Acl.from_json(ACL).to_json() == ACL
    assert Acl("User:a", (Entry("Topic:T", ("Pub",)),)).to_json()["policies"][0].keys() == {
        "entries"
    }
    for words in (("-r", ","), ("-a", "")):
        ran = await mqadmin(cluster.namesrv, "createAcl", *one, *entry, *words)
        assert ran.code == 1


async def test_pyrmq_has_no_users(embedded: Running) -> None:
    broker = format_address(embedded.broker_address)
    for words in (
        ("createUser", "-u", "a", "-p", "hush"), ("listUser",), ("getAcl", "-s", "User:a"),
        ("rocksDBConfigToJson",), ("exportPopRecord",),
    ):  # fmt: skip
        ran = await mqadmin(embedded.namesrv, words[0], "-b", broker, *words[1:])
        assert ran.code == 2, ran.out
        assert "Traceback" not in ran.err
        assert "hush" not in ran.err


def _metadata(scripted: Replicas, leader: str | None = None) -> None:
    def answer(command: Command) -> Command:
        return command.reply(
            0,
            {
                "group": "G", "controllerLeaderId": "n0", "isLeader": "true",
                "controllerLeaderAddress": leader or scripted.slave, "peers": "n0;n1",
            },
        )  # fmt: skip

    scripted.on_master.change[1005] = answer


async def test_controllers(cluster: Replicas) -> None:
    _metadata(cluster)
    at = ("-a", cluster.master)
    shown = await mqadmin("", "getControllerMetaData", *at)
    assert shown.code == 0, shown.err
    assert shown.lines == [
        "#ControllerGroup\tG", "#ControllerLeaderId\tn0",
        f"#ControllerLeaderAddress\t{cluster.slave}", "#Peer:\tn0", "#Peer:\tn1",
    ]  # fmt: skip
    replica = {"brokerName": "b", "brokerId": 1, "brokerAddress": "1.2.3.4:5", "alive": True}
    state = {
        "masterBrokerId": 1, "masterAddress": "1.2.3.4:5", "masterEpoch": 3,
        "syncStateSetEpoch": 4, "inSyncReplicas": [replica], "notInSyncReplicas": [],
    }  # fmt: skip
    cluster.on_slave.says(1006, {"replicasInfoTable": {"b": state}})
    states = await mqadmin("", "getSyncStateSet", *at, "-b", "b")
    assert states.lines == [
        "", "#brokerName\tb", "#MasterBrokerId\t1", "#MasterAddr\t1.2.3.4:5", "#MasterEpoch\t3",
        "#SyncStateSetEpoch\t4", "#SyncStateSetNums\t1", "",
        "InSyncReplica:\tReplicaIdentity{brokerName='b', brokerId=1, "
        "brokerAddress='1.2.3.4:5', alive=true}",
    ]  # fmt: skip
    assert [json.loads(b) for b in cluster.on_slave.bodies(1006)] == [["b"]]
    tree = await admin("", "controller", "sync-state", *at, "--broker-name", "b", "-o", "json")
    assert json.loads(tree.out)[0]["master_epoch"] == 3


async def test_controllers_that_are_changed(cluster: Replicas) -> None:
    _metadata(cluster)
    at = ("-a", cluster.master)

    def elected(command: Command) -> Command:
        body = {"brokerMemberGroup": {"brokerAddrs": {"2": "1.2.3.4:6"}}}
        ext = {"masterAddress": "1.2.3.4:6", "masterEpoch": "5", "syncStateSetEpoch": "6"}
        return command.reply(0, ext, json.dumps(body).encode())

    cluster.on_slave.change[1002] = elected
    ran = await mqadmin("", "electMaster", *at, "-b", "2", "-bn", "b", "-c", "C")
    assert ran.lines == [
        "#ClusterName\tC", "#BrokerName\tb", "#BrokerMasterAddr\t1.2.3.4:6", "#MasterEpoch\t5",
        "#SyncStateSetEpoch\t6", "\t#Broker\t2\t1.2.3.4:6",
    ]  # fmt: skip
    (asked,) = [c for c in cluster.on_slave.asked if c.code == 1002]
    assert (asked.ext["brokerId"], asked.ext["designateElect"]) == ("2", "true")
    cleaned = await mqadmin("", "cleanBrokerMetadata", *at, "-bn", "b", "-c", "C", "-b", "1;2")
    assert cleaned.lines == ["clear broker b metadata from controller success!"]
    (asked,) = [c for c in cluster.on_slave.asked if c.code == 1011]
    assert asked.ext["brokerControllerIdsToClean"] == "1;2"
    assert asked.ext["isCleanLivingBroker"] == "false"
    for words in ((), ("-b", "x", "-l")):
        assert (await mqadmin("", "cleanBrokerMetadata", *at, "-bn", "b", *words)).code == 1
    cluster.on_master.says(1010, b"b=2\na=1\n")
    both = f"{cluster.master};{DEAD}"
    config = await mqadmin("", "getControllerConfig", "-a", both)
    assert config.code == 3
    assert config.lines[1:] == [f"{'a':<50}=  1", f"{'b':<50}=  2"]
    changed = await mqadmin("", "updateControllerConfig", "-a", both, "-k", "a", "-v", "3")
    assert changed.code == 3
    assert changed.lines == [f"update controller config success![{cluster.master}]", "a : 3"]
    asked_yes = await admin("", "controller", "elect", *at, "-c", "C", "--broker-name", "b", "2")
    assert asked_yes.code == 1
    _metadata(cluster, leader=" ")


async def test_a_controller_without_a_leader(cluster: Replicas) -> None:
    ran = await mqadmin("", "electMaster", "-a", cluster.master, "-b", "1", "-bn", "b", "-c", "C")
    assert ran.code == 2
    assert "knows no leader" in ran.err


async def test_rocksdb(cluster: Replicas) -> None:
    cluster.on_master.says(354, {"checkResult": "begun", "checkStatus": 2})
    checked = await mqadmin(cluster.namesrv, "checkRocksdbCqWriteProgress", "-c", "C", "-t", "T")
    assert checked.code == 3
    assert checked.lines == ["broker-a check doing, please wait and get the result from log..."]
    cluster.on_master.says(354, {"checkResult": "not a combined queue", "checkStatus": 3})
    checked = await mqadmin(cluster.namesrv, "checkRocksdbCqWriteProgress", "-c", "C")
    assert "not a combined queue" in checked.err
    done = await mqadmin(
        cluster.namesrv, "rocksDBConfigToJson", "-b", cluster.master, "-t", "topics"
    )
    assert done.lines[1:] == [f"{cluster.master} export done."]
    assert _asked(cluster, 355)[0].ext["configType"] == "topics;"
    dry = await mqadmin(cluster.namesrv, "exportPopRecord", "-c", "C", "-d", "true")
    assert (dry.code, len(dry.lines), _asked(cluster, 200056)) == (0, 3, [])
    popped = await mqadmin(cluster.namesrv, "exportPopRecord", "-b", cluster.master)
    assert popped.lines == [
        f"Export broker records, brokerName=, brokerAddr={cluster.master}, dryRun=false"
    ]
    for words in (("rocksDBConfigToJson", "-p", "/x"),
                  ("exportMetadataInRocksDB", "-p", "/x", "-t", "topics")):  # fmt: skip
        ran = await mqadmin(cluster.namesrv, *words)
        assert ran.code == 2
        assert "not read by pyrmq" in ran.err
    wrong = await mqadmin(cluster.namesrv, "rocksDBConfigToJson", "-t", "everything")
    assert wrong.code == 1
