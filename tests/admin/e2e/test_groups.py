"""Consumer groups: `admin.groups` and the commands about them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio

from pyrmq.admin import Admin
from pyrmq.admin.groups import GroupConfig
from pyrmq.admin.link import AdminLink, Replica
from pyrmq.broker.requests import group_admin
from pyrmq.client import ConsumeFrom, Producer, PushConsumer
from pyrmq.errors import ResponseError, TopicNotExistError
from pyrmq.model.codes import RequestCode
from pyrmq.model.message import Message, MessageQueue
from pyrmq.server import Running
from tests.support.consumed import take
from tests.support.mqadmin import Ran, admin, mqadmin

QUEUE = MessageQueue("Topic", "broker-a", 0)


async def send(server: Running, many: int, queue: MessageQueue = QUEUE) -> None:
    async with Producer("pg", namesrv=server.namesrv) as producer:
        for n in range(many):
            await producer.send(Message(queue.topic, b"%d" % n), queue=queue)


def consumer(server: Running, group: str = "cg") -> PushConsumer:
    return PushConsumer(
        group, {"Topic": "*"}, namesrv=server.namesrv, consume_from=ConsumeFrom.FIRST_OFFSET
    )


async def until(server: Running, has: str, *words: str) -> Ran:
    """What a command prints once that is in it."""
    for _ in range(200):
        ran = await mqadmin(server.namesrv, *words)
        if has in ran.out:
            return ran
        await trio.sleep(0.02)
    raise AssertionError(f"no {has!r} in {words[0]}: {ran.out}{ran.err}")


def broker(server: Running) -> str:
    return "{}:{}".format(*server.broker_address)


async def test_members_and_how_far_they_are(
    embedded: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send(embedded, 3)
    async with consumer(embedded) as reader:
        await take(reader, 3)
        shown = await until(embedded, "Topic  ", "consumerConnection", "-g", "cg")
        assert shown.lines[0] == (
            "#ClientId                            #ClientAddr            #Language  #Version"
        )
        assert shown.lines[1].split()[2:] == ["PYTHON", "V5_3_3"]
        client = shown.lines[1].split()[0]
        assert shown.lines[2:5] == ["", "Below is subscription:", f"{'#Topic':<20} #SubExpression"]
        assert f"{'Topic':<20} *" in shown.lines
        assert shown.lines[-3:] == [
            "ConsumeType: CONSUME_PASSIVELY",
            "MessageModel: CLUSTERING",
            "ConsumeFromWhere: CONSUME_FROM_FIRST_OFFSET",
        ]
        at = await mqadmin(
            embedded.namesrv, "consumerConnection", "-g", "cg", "-b", broker(embedded)
        )
        assert at.lines == shown.lines

        far = await mqadmin(embedded.namesrv, "consumerProgress", "-g", "cg", "-s", "true")
        row = next(line for line in far.lines if line.startswith("Topic ") and "  0     3" in line)
        assert row.split()[:4] == ["Topic", "broker-a", "0", "3"]
        assert row.split()[5] == client.partition("@")[0]
        assert far.lines[0].endswith("#Diff                #Inflight           #LastTime")
        assert "Consume Diff Total: " in far.out
        groups = await mqadmin(embedded.namesrv, "consumerProgress")
        line = next(line for line in groups.lines if line.startswith("cg "))
        assert line.split()[1:5] == ["1", "V5_3_3", "PUSH", "CLUSTERING"]

        one = await mqadmin(embedded.namesrv, "consumerStatus", "-g", "cg", "-i", client, "-s")
        assert one.lines[0] == "#Consumer Properties#"
        assert f"002 Topic: {'Topic':<40} ClassFilter: false    SubExpression: *" in one.lines
        assert "#Consumer jstack#" in one.lines
        assert "ProcessQueueInfo [commitOffset=" in one.out
        monkeypatch.chdir(tmp_path)
        every = await mqadmin(embedded.namesrv, "consumerStatus", "-g", "cg")
        assert every.code == 0, every.err
        assert every.lines[-3:] == [
            "Same subscription in the same group of consumer", "", "Rebalance OK",
        ]  # fmt: skip
        file = tmp_path / every.lines[1].split()[-1]
        assert file.read_text().startswith("#Consumer Properties#\n")
        status = await mqadmin(embedded.namesrv, "getConsumerStatus", "-g", "cg", "-t", "Topic")
        assert status.lines[0] == (
            "get consumer status from client. group=cg, topic=Topic, originClientId="
        )
        assert any(li.split()[0] == client[:50] for li in status.lines[2:]), status.out
        seen = await admin(embedded.namesrv, "group", "connections", "cg", "-o", "json")
        assert json.loads(seen.out)["connections"][0]["client_id"] == client
        table = await admin(embedded.namesrv, "group", "progress", "cg", "--clients")
        assert client in table.out
        assert "Topic" in (await admin(embedded.namesrv, "group", "status", "cg")).out
        assert (await admin(embedded.namesrv, "group", "offsets", "cg", "Topic")).code == 0
    gone = await mqadmin(embedded.namesrv, "consumerConnection", "-g", "cg")
    assert (gone.code, gone.out) == (2, "")
    assert "CODE: 206" in gone.err
    assert "OFFLINE" in (await mqadmin(embedded.namesrv, "consumerProgress")).out
    assert (await mqadmin(embedded.namesrv, "consumerStatus", "-g", "cg")).code == 2
    nobody = await mqadmin(embedded.namesrv, "consumerProgress", "-g", "Nobody")
    assert nobody.code == 2
    assert "no consumer of group Nobody has been here" in nobody.err
    where = ("-c", "DefaultCluster", "-g", "cg")
    assert (await mqadmin(embedded.namesrv, "deleteSubGroup", *where)).code == 0
    assert "cg" not in (await mqadmin(embedded.namesrv, "consumerProgress")).out
    async with Admin(embedded.namesrv) as tools:
        assert "%RETRY%cg" not in await tools.topics.list()


async def test_attributes(embedded: Running, tmp_path: Path) -> None:
    """What is set is shown, and what an export has can be made of a file."""
    name, key = "Ranked", "priority.factor"

    async def attributes() -> dict[str, str]:
        async with Admin(embedded.namesrv) as tools:
            configs = (await tools.groups.configs(name)).check()
        (found,) = configs.values
        assert found is not None
        return found.config.attributes

    words = ("group", "create", name, "-c", "DefaultCluster")
    assert (await admin(embedded.namesrv, *words, "--attributes", f"+{key}=30")).code == 0
    assert (await admin(embedded.namesrv, *words, "--retries", "3")).code == 0
    assert await attributes() == {key: "30"}
    shown = await admin(embedded.namesrv, "group", "config", name)
    assert (key in shown.out, "30" in shown.out) == (True, True), shown.out
    wrong = await admin(embedded.namesrv, *words, "--attributes", f"+{key}=300")
    assert (wrong.code, "from 0 to 100" in wrong.out + wrong.err) == (2, True), wrong
    file = tmp_path / "groups.json"
    file.write_text(json.dumps([{"groupName": name, "attributes": {key: "40"}}]))
    many = ("group", "create-batch", str(file), "-c", "DefaultCluster")
    assert (await admin(embedded.namesrv, *many)).code == 0
    assert await attributes() == {key: "40"}
    assert (await admin(embedded.namesrv, *words, "--attributes", f"-{key}")).code == 0
    assert await attributes() == {}


async def test_making_and_deleting(embedded: Running, tmp_path: Path) -> None:
    where = ("-c", "DefaultCluster")
    policy = '{"type":"CUSTOMIZED","customizedRetryPolicy":{"next":[5,6]}}'
    words = (*where, "-g", "Made", "-r", "3", "-p", policy)
    made = await mqadmin(embedded.namesrv, "updateSubGroup", *words)
    assert made.lines == [
        f"create subscription group to {broker(embedded)} success.",
        "SubscriptionGroupConfig{groupName=Made, consumeEnable=true, consumeFromMinEnable=false, "
        "consumeBroadcastEnable=false, consumeMessageOrderly=false, retryQueueNums=1, "
        "retryMaxTimes=3, groupRetryPolicy=GroupRetryPolicy{type=CUSTOMIZED, "
        "exponentialRetryPolicy=null, customizedRetryPolicy=CustomizedRetryPolicy{next=[5, 6]}}, "
        "brokerId=0, whichBrokerWhenConsumeSlowly=1, notifyConsumerIdsChangedEnable=true, "
        "groupSysFlag=0, consumeTimeoutMinute=15, subscriptionDataSet=null, attributes={}}",
    ]
    shown = await mqadmin(embedded.namesrv, "getConsumerConfig", "-g", "Made")
    assert shown.lines[0] == f"{'=' * 29}DefaultCluster:broker-a{'=' * 29}"
    assert f"{'retryMaxTimes':<40}=  3" in shown.lines
    assert (await mqadmin(embedded.namesrv, "getConsumerConfig", "-g", "Absent")).out == ""

    file = tmp_path / "groups.json"
    file.write_text(json.dumps([{"groupName": "L1", "retryMaxTimes": 7}, {"groupName": "L2"}]))
    many = await mqadmin(embedded.namesrv, "updateSubGroupList", "-b", broker(embedded), "-f",
                         str(file))  # fmt: skip
    assert many.lines == [
        f"submit batch of group config to {broker(embedded)} success, "
        "please check the result later."
    ]
    async with Admin(embedded.namesrv) as tools:
        found = (await tools.groups.configs("L1")).values[0]
        assert found is not None
        assert found.config.retry_max_times == 7

    removed = await mqadmin(embedded.namesrv, "deleteSubGroup", *where, "-g", "Made", "-r", "true")
    assert removed.lines == [
        f"delete subscription group [Made] from broker [{broker(embedded)}] in cluster "
        "[DefaultCluster] success."
    ]
    assert removed.code == 0, removed.err
    assert (await mqadmin(embedded.namesrv, "getConsumerConfig", "-g", "Made")).out == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("updateSubGroup -g G", "give --brokerAddr or --clusterName"),
        ("updateSubGroup -g G -c C -s yes", "takes true or false"),
        ("updateSubGroup -g G -c C -p [1]", "takes a JSON object"),
        ("updateSubGroup -g G -c C --attributes a=b", "+name=value or -name"),
        ("updateSubGroupList -c C -f /no/such/file", "does not exists"),
        ("updateSubGroupList -c C -b h:1 -f x", "only one of"),
        ("deleteSubGroup -c C", "Missing required option: g"),
        ("setConsumeMode -c C -g G -t T -m PUSH", "--mode takes PULL or POP"),
        ("consumerProgress -t T", "--topicName needs --groupName"),
        ("resetOffsetByTime -g G -t T -s soon", "milliseconds since 1970"),
        ("resetOffsetByTime -g G -t T -s now -q 1", "one queue is --broker and --queue"),
        ("resetOffsetByTime -g G -t T -s now -b h:1", "give --queue as well"),
    ],
)
async def test_command_lines_that_cannot_be_meant(words: str, said: str) -> None:
    ran = await mqadmin("127.0.0.1:1", *words.split())
    assert ran.code == 1, ran.err
    assert said in ran.err


async def test_refusals(embedded: Running) -> None:
    unknown = await mqadmin(embedded.namesrv, "updateSubGroup", "-c", "Other", "-g", "G")
    assert unknown.code == 2
    assert "there is no cluster Other" in unknown.err
    name = await mqadmin(embedded.namesrv, "updateSubGroup", "-b", broker(embedded), "-g", "a/b")
    assert name.code == 2
    assert "illegal" in name.err


async def test_producers(embedded: Running) -> None:
    await send(embedded, 1)
    beat = {"clientID": "me@1", "consumerDataSet": [], "producerDataSet": [{"groupName": "pg"}]}
    words = ("producerConnection", "-g", "pg", "-t", "Topic")
    async with Admin(embedded.namesrv) as tools:
        body = json.dumps(beat).encode()
        await tools.link.ask(broker(embedded), RequestCode.HEART_BEAT, body=body)
        shown = await mqadmin(embedded.namesrv, *words)
        assert shown.lines[0].startswith(f"0001  {'me@1':<32} 127.0.0.1:")
        assert shown.lines[0].split()[3:] == ["PYTHON", "V5_3_3"]
        tree = await admin(embedded.namesrv, "producer", "connections", "pg", "Topic")
        assert "me@1" in tree.out
    absent = await mqadmin(embedded.namesrv, "producerConnection", "-g", "no", "-t", "Topic")
    assert (absent.code, absent.out) == (2, "")


async def test_requests_that_not_all_brokers_know(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the client's side: what is asked, and how an answer is printed."""
    asked: list[tuple[int, Any]] = []
    producer = {
        "clientId": "c@1", "remoteIP": "10.0.0.1", "language": "JAVA", "version": 479,
        "lastUpdateTimestamp": 7,
    }  # fmt: skip

    async def ask_json(self: object, server: str, code: int, *_: object, **__: object) -> Any:
        asked.append((code, None))
        return {"data": {"pg": [producer], "none": []}}

    async def ask(self: object, server: str, code: int, ext: object = None, body: bytes = b"",
                  **_: object) -> None:  # fmt: skip
        asked.append((code, json.loads(body)))

    monkeypatch.setattr(AdminLink, "ask_json", ask_json)
    monkeypatch.setattr(AdminLink, "ask", ask)
    shown = await mqadmin("127.0.0.1:1", "producer", "-b", "127.0.0.1:1")
    assert shown.lines == [
        "producer group (none) instances are empty",
        "producer group (pg) instance : clientId=c@1,remoteIP=10.0.0.1, language=JAVA, "
        "version=479, lastUpdateTimestamp=7",
    ]
    words = ("-b", "127.0.0.1:1", "-g", "G", "-t", "T", "-m", "pop", "-q", "3")
    set_ = await mqadmin("127.0.0.1:1", "setConsumeMode", *words)
    assert set_.lines == [
        "set consume mode to 127.0.0.1:1 success.",
        "topic[T] group[G] consume mode[POP] popShareQueueNum[3]",
    ]
    mode = {"consumerGroup": "G", "mode": "POP", "popShareQueueNum": 3, "topic": "T"}
    assert asked == [(328, None), (401, mode)]


async def test_a_broker_that_is_gone(embedded: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    await send(embedded, 2)
    await mqadmin(embedded.namesrv, "updateSubGroup", "-b", broker(embedded), "-g", "G")
    brokers_of = AdminLink.brokers_of

    async def with_another(link: AdminLink, topic: str) -> list[Replica]:
        return [*await brokers_of(link, topic), Replica.at("127.0.0.1:1")]

    monkeypatch.setattr(AdminLink, "brokers_of", with_another)
    for words in (("skipAccumulatedMessage",), ("consumerProgress",)):
        ran = await mqadmin(embedded.namesrv, *words, "-g", "G", "-t", "Topic")
        assert ran.code == 3, ran.err
        assert "broker-a" in ran.out
        assert "127.0.0.1:1" in ran.err


async def test_the_tree(embedded: Running, tmp_path: Path) -> None:
    where = ("--cluster", "DefaultCluster")
    made = await admin(embedded.namesrv, "group", "create", "Made", *where, "--retries", "4")
    assert made.code == 0, made.err
    for option, text in (("--attributes", "a=b"), ("--retry-policy", "[]"), ("--retries", "-2")):
        bad = await admin(embedded.namesrv, "group", "create", "Made", *where, option, text)
        assert (bad.code, bad.out) == (1, ""), option
        assert option in bad.err
    file = tmp_path / "groups.json"
    file.write_text("[]")
    assert (await admin(embedded.namesrv, "group", "create-batch", str(file), *where)).code == 1
    file.write_text('[{"groupName": "B"}]')
    assert (await admin(embedded.namesrv, "group", "create-batch", str(file), *where)).code == 0
    shown = await admin(embedded.namesrv, "group", "config", "Made", "-o", "json")
    assert json.loads(shown.out)[0]["config"]["retry_max_times"] == 4
    assert (await admin(embedded.namesrv, "group", "config", "Absent")).code == 2
    listed = await admin(embedded.namesrv, "group", "list", "-o", "json")
    assert [(g["group"], g["members"]) for g in json.loads(listed.out)] == [("B", 0), ("Made", 0)]
    more = await admin(embedded.namesrv, "group", "list", "--system", "-o", "json")
    assert "TOOLS_CONSUMER" in {g["group"] for g in json.loads(more.out)}
    kept = await admin(embedded.namesrv, "group", "create", "Made", *where, "--no-broadcast")
    assert kept.code == 0, kept.err
    shown = await admin(embedded.namesrv, "group", "config", "Made", "-o", "json")
    config = json.loads(shown.out)[0]["config"]
    assert (config["retry_max_times"], config["consume_broadcast_enable"]) == (4, False)
    asked = await admin(embedded.namesrv, "group", "delete", "Made", *where)
    assert asked.code == 1
    assert "--yes" in asked.err
    assert (await admin(embedded.namesrv, "group", "delete", "Made", *where, "-y")).code == 0


async def test_a_list_that_is_longer_than_a_request_may_be(
    embedded: Running, tmp_path: Path
) -> None:
    file = tmp_path / "groups.json"
    file.write_text(json.dumps([{"groupName": f"many-{n}"} for n in range(4_200)]))
    ran = await mqadmin(
        embedded.namesrv, "updateSubGroupList", "-f", str(file), "-c", "DefaultCluster"
    )
    assert ran.code == 0, ran.err
    async with Admin(embedded.namesrv) as asked:
        names = await asked.groups.names()
    assert sum(name.startswith("many-") for name in names) == 4_200


async def test_all_groups_at_once_and_how_far_behind_in_time(embedded: Running) -> None:
    await send(embedded, 3)
    async with consumer(embedded) as reader:
        await take(reader, 3)
        await until(embedded, "Diff Total: 0", "consumerProgress", "-g", "cg")
    await send(embedded, 2)
    async with Admin(embedded.namesrv) as asked:
        where = {"cluster": "DefaultCluster"}
        (await asked.groups.change("idle", {"consume_enable": False}, **where)).check_all()
        (lags,) = (await asked.groups.lags()).check_all().values
        assert lags["cg"].lag == 2
        assert lags["cg"].gone == 0
        assert lags["cg"].topics == {"Topic", "%RETRY%cg"}
        assert "idle" not in lags
        (enabled,) = (await asked.groups.enabled()).check_all().values
        assert (enabled["cg"], enabled["idle"]) == (True, False)
        times = await asked.groups.times("cg", "Topic")
        assert times.failed == []
        late = [row for row in times if row.behind_ms > 0]
        assert [row.queue for row in late] == [QUEUE]
        assert late[0].consumed <= late[0].last
        with pytest.raises(TopicNotExistError):
            await asked.groups.times("cg", "Nowhere")


async def test_members_that_subscribe_differently_say_what_each_wants(embedded: Running) -> None:
    await send(embedded, 1)

    def member(name: str, expression: str) -> PushConsumer:
        wanted = {"Topic": expression}
        return PushConsumer("cg", wanted, namesrv=embedded.namesrv, instance_name=name)

    async with member("one", "A"), member("two", "B"), Admin(embedded.namesrv) as asked:
        for _ in range(200):
            found = await asked.groups.connections("cg")
            if len(found.connections) == 2:
                break
            await trio.sleep(0.02)
        wanted = sorted((c.subscriptions or {})["Topic"] for c in found.connections)
    assert wanted == ["A", "B"]


async def test_more_groups_than_fit_into_an_answer(
    embedded: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Admin(embedded.namesrv) as asked:
        made = [GroupConfig(f"many-{n}", retry_max_times=n) for n in range(7)]
        (await asked.groups.update_many(made, cluster="DefaultCluster")).check_all()
        monkeypatch.setattr(group_admin, "MAX_TABLE", 2_000)
        with pytest.raises(ResponseError, match="more than 2000 bytes"):
            await asked.link.ask(broker(embedded), RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        names = await asked.groups.names()
        assert {f"many-{n}" for n in range(7)} | {"TOOLS_CONSUMER"} <= set(names)
        (config,) = (await asked.groups.configs("many-5")).check_all().values
        assert config is not None
        assert config.config.retry_max_times == 5
        assert (await asked.groups.configs("many-7")).check_all().values == [None]
