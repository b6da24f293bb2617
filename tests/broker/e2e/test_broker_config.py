"""GET_BROKER_CONFIG and UPDATE_BROKER_CONFIG: keys that change while the broker runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyrmq.config.files import parse_properties
from tests.support.client import GET_ROUTEINFO_BY_TOPIC, PULL_SUSPEND, Client, pull_command
from tests.support.command import Serving
from tests.support.server import ServerProcess
from tests.support.waiting import eventually
from tests.support.wire import BINARY, JSON, Command

UPDATE, GET = 25, 26
BUSY, NO_PERMISSION, TOPIC_NOT_EXIST, NOT_FOUND, NO_GROUP, INVALID = 2, 16, 17, 19, 26, 29


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("config") / "store") as running:
        yield running


@pytest.fixture
def client(server: ServerProcess) -> Iterator[Client]:
    with Client(server.broker) as connection:
        yield connection


def update(client: Client, **values: object) -> Command:
    """As mqadmin sends it: lines `key=value`."""
    return client.call(UPDATE, "".join(f"{k}={v}\n" for k, v in values.items()).encode())


def changed(client: Client, **values: object) -> None:
    answer = update(client, **values)
    assert answer.code == 0, answer.remark


def shown(client: Client) -> dict[str, str]:
    return parse_properties(client.call(GET).body.decode("ascii"))


def version(client: Client) -> dict[str, int]:
    found: dict[str, int] = json.loads(client.call(GET).ext["version"])
    return found


@pytest.mark.parametrize("serialize", [JSON, BINARY])
def test_every_key_is_shown(server: ServerProcess, client: Client, serialize: int) -> None:
    answer = client.request(Command(GET, {}, serialize=serialize))
    assert answer.code == 0
    assert set(json.loads(answer.ext["version"])) == {"counter", "stateVersion", "timestamp"}
    found = parse_properties(answer.body.decode("ascii"))
    assert len(found) > 100
    assert found["listenPort"] == str(server.broker[1]), "the port that was taken"
    assert (found["brokerName"], found["brokerIP1"]) == ("broker-a", "127.0.0.1")
    assert (found["flushDiskType"], found["brokerRole"]) == ("ASYNC_FLUSH", "ASYNC_MASTER")
    assert found["storePathRootDir"] == str(server.store)
    assert found["messageDelayLevel"].startswith("1s 5s 10s")


def test_an_update_counts_and_outlives_a_restart(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "store", conf="shortPollingTimeMills=900\n") as server:
        with Client(server.broker) as client:
            before = version(client)
            answer = update(client, defaultQueryMaxNum=7, shortPollingTimeMills=800)
            assert answer.code == 0
            assert answer.remark == "shortPollingTimeMills: 900 -> 800; defaultQueryMaxNum: 32 -> 7"
            assert shown(client)["defaultQueryMaxNum"] == "7"
            after = version(client)
            assert after["counter"] == before["counter"] + 1
            assert after["timestamp"] >= before["timestamp"]
            again = update(client, defaultQueryMaxNum=7)
            assert (again.code, version(client)) == (0, after)
            assert "nothing changed" in str(again.remark)
        assert "defaultQueryMaxNum: 32 -> 7" in server.stderr_text()
        server.kill()  # it is on disk when it is answered
        server.start()
        with Client(server.broker) as client:
            found = shown(client)
            assert (found["defaultQueryMaxNum"], found["shortPollingTimeMills"]) == ("7", "800")
            assert version(client) == after
        server.conf = "shortPollingTimeMills=700\n"
        server.restart()
        with Client(server.broker) as client:
            found = shown(client)
            assert found["shortPollingTimeMills"] == "700", "the later edit of broker.conf"
            assert found["defaultQueryMaxNum"] == "7"
        assert "shortPollingTimeMills: it was configured as 900 then" in server.stderr_text()


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        (b"listenPort=1\n", NO_PERMISSION, ("listenPort is set by the option --broker-port",)),
        (b"storePathIndex=/x\n", NO_PERMISSION, ("storePathIndex", "always below")),
        (b"brokerName=x\n", NO_PERMISSION, ("brokerName", "broker.conf")),
        (b"adminAddressAllowList=\n", NO_PERMISSION, ("adminAddressAllowList", "broker.conf")),
        (b"maxMessageSize=5\n", NO_PERMISSION, ("maxMessageSize", "broker.conf", "restart")),
        (b"brokerRole=SLAVE\n", INVALID, ("shortPollingTimeMills", "by itself")),
        (b"brokerRole=SLAVE\ntraceOn=true\n", INVALID, ("traceOn", "by itself")),
        (b"brokerRole=KING\n", INVALID, ("brokerRole=KING", "SYNC_MASTER")),
        (b"sendMessageThreadPoolNums=4\n", NO_PERMISSION, ("sendMessageThreadPoolNums", "effect")),
        (b"brokerPermision=4\n", INVALID, ("did you mean brokerPermission",)),
        (b"brokerPermission=8\n", INVALID, ("brokerPermission=8: must be 0 to 7",)),
        (b"brokerPermission=4;brokerName=x\n", INVALID, ("a number expected",)),
        (b"longPollingEnable=yes\n", INVALID, ("true or false expected",)),
        (b"longPollingEnable\n", INVALID, ("true or false expected",)),
        (b"", INVALID, ("no line key=value",)),
        (b"# nothing\n\n", INVALID, ("no line key=value",)),
        (b"\xff=1\n", INVALID, ("not UTF-8",)),
        (b"\\ud800\\u001b[31m=1\n", INVALID, ("unknown configuration key",)),
        (b"brokerPermission=\\ud800\n", INVALID, ("a number expected",)),
        (b"x" * 16_385, INVALID, ("at most 16384 bytes",)),
        (b"".join(b"key%d=1\n" % n for n in range(1500)), INVALID, ("key4'",)),
    ],
)
def test_refused_as_a_whole(
    server: ServerProcess, client: Client, body: bytes, code: int, words: tuple[str, ...]
) -> None:
    """With a key beside it that could be updated by itself."""
    before = shown(client), version(client)
    alone = b"shortPollingTimeMills=77\n" if len(body) < 10_000 and b"=" in body else b""
    answer = client.call(UPDATE, alone + body)
    assert answer.code == code, answer.remark
    assert answer.remark is not None
    assert answer.remark.isprintable()
    assert len(answer.remark) < 4000
    for word in words:
        assert word in answer.remark
    assert (shown(client), version(client)) == before
    assert not (server.store / "config" / "brokerConfigUpdates.json").exists()


def test_what_the_environment_sets_is_refused(tmp_path: Path) -> None:
    env = {
        "PYRMQ_BROKER_CONF_BROKER_PERMISSION": "6",
        "PYRMQ_BROKER_CONF_SHORT_POLLING_TIME_MILLS": "5",
    }
    args = ("server", "--store", str(tmp_path / "s"), "--namesrv-port", "0", "--broker-port", "0")
    with (
        Serving(tmp_path / "log", *args, **env) as server,
        Client(server.address("broker")) as client,
    ):
        assert shown(client)["shortPollingTimeMills"] == "5"
        answer = update(client, brokerPermission=4)
        assert answer.code == NO_PERMISSION
        assert "PYRMQ_BROKER_CONF_BROKER_PERMISSION" in str(answer.remark)


def test_updates_at_once(server: ServerProcess) -> None:
    """From many clients: one after the other, and what is shown last is what is in the file."""
    clients = [Client(server.broker) for _ in range(12)]
    with Client(server.broker) as client:
        before = version(client)["counter"]
    for n, client in enumerate(clients):
        client.post(Command(UPDATE, {}, b"transactionCheckMax=%d\n" % (100 + n)))
    codes = [client.receive().code for client in clients]
    for client in clients:
        client.close()
    assert codes == [0] * 12
    with Client(server.broker) as client:
        file = json.loads((server.store / "config" / "brokerConfigUpdates.json").read_text())
        kept = file["updates"]["transactionCheckMax"]["value"]
        assert kept == shown(client)["transactionCheckMax"]
        assert file["dataVersion"]["counter"] == version(client)["counter"] == before + 12
        changed(client, transactionCheckMax=15)


# What each key does, at once.


def perms(server: ServerProcess, topic: str) -> set[int]:
    with Client(server.namesrv) as names:
        answer = names.call(GET_ROUTEINFO_BY_TOPIC, topic=topic, acceptStandardJsonOnly="true")
    return {queue["perm"] for queue in json.loads(answer.body)["queueDatas"]}


def test_broker_permission(server: ServerProcess, client: Client) -> None:
    assert client.send("Perm").code == 0
    assert client.pull("Perm", 0, 0).code == 0
    assert perms(server, "Perm") == {6}
    changed(client, brokerPermission=2)
    assert perms(server, "Perm") == {2}, "name servers know before it is answered"
    assert client.pull("Perm", 0, 0).code == NO_PERMISSION
    changed(client, brokerPermission=4)
    assert perms(server, "Perm") == {4}
    assert client.pull("Perm", 0, 0).code == 0
    back = client.call(36, group="CG_test", offset=0, delayLevel=0)
    assert back.code == NO_PERMISSION
    changed(client, brokerPermission=6)
    assert perms(server, "Perm") == {6}


def test_topics_and_groups_that_make_themselves(client: Client) -> None:
    changed(client, autoCreateTopicEnable="false", autoCreateSubscriptionGroup="false")
    assert client.send("Unknown").code == TOPIC_NOT_EXIST
    client.send("Known")
    assert client.pull("Perm", 0, 0, group="UnknownGroup").code == NO_GROUP
    changed(client, autoCreateTopicEnable="true", autoCreateSubscriptionGroup="true")
    assert client.send("Unknown").code == 0
    assert client.pull("Unknown", 0, 0, group="UnknownGroup").code == 0


def test_topics_stay_closed_after_a_restart(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "store") as server:
        with Client(server.broker) as client:
            changed(client, autoCreateTopicEnable="false")
        server.restart()
        with Client(server.broker) as client:
            assert client.send("Unknown").code == TOPIC_NOT_EXIST
            changed(client, autoCreateTopicEnable="true")
            assert client.send("Unknown").code == 0


def test_a_template_that_was_never_there(tmp_path: Path) -> None:
    conf = "autoCreateTopicEnable=false\ndefaultTopicQueueNums=3\n"
    with ServerProcess(tmp_path / "store", conf=conf) as server, Client(server.broker) as client:
        assert client.send("T", queues=4).code == TOPIC_NOT_EXIST
        changed(client, autoCreateTopicEnable="true")
        assert client.send("T", queues=4).code == 0
        assert json.loads(client.call(351, topic="T").body)["writeQueueNums"] == 3


def test_filters_and_lite_pulls(client: Client) -> None:
    body = b'{"subscriptionData":{"expressionType":"SQL92","subString":"a = 1","topic":"Perm"}}'
    assert client.call(46, body).code == 1
    changed(client, enablePropertyFilter="true", litePullMessageEnable="false")
    assert client.call(46, body).code == 0
    lite = pull_command("Perm", 0, 0)
    lite.code = 361
    assert client.request(lite).code == NO_PERMISSION
    changed(client, enablePropertyFilter="false", litePullMessageEnable="true")
    assert client.call(46, body).code == 1
    assert client.request(lite).code == 0


def test_short_polling(client: Client) -> None:
    client.send("Poll")
    waiting = pull_command("Poll", 0, 1, sys_flag=PULL_SUSPEND | 4, suspend_ms=30_000)
    changed(client, longPollingEnable="false", shortPollingTimeMills=1)
    assert client.request(waiting, timeout=10).code == NOT_FOUND
    changed(client, longPollingEnable="true", shortPollingTimeMills=1000)


def test_how_often_offsets_are_written(server: ServerProcess, client: Client) -> None:
    file = server.store / "config" / "consumerOffset.json"
    changed(client, flushConsumerOffsetInterval=86_400_000)
    client.send("Saved")
    commit = {"consumerGroup": "Writer", "topic": "Saved", "queueId": 0, "commitOffset": 1}
    assert client.call(15, **commit).code == 0
    assert "Saved@Writer" not in (file.read_text() if file.exists() else "")
    changed(client, flushConsumerOffsetInterval=100)
    eventually(lambda: file.exists() and "Saved@Writer" in file.read_text(), "offsets are written")


def test_idle_connections(server: ServerProcess, client: Client) -> None:
    changed(client, serverChannelMaxIdleTimeSeconds=1)
    with Client(server.broker) as idle:
        assert idle.until_closed(30) == []
    with Client(server.broker) as client:
        changed(client, serverChannelMaxIdleTimeSeconds=120)


def test_checks_of_transactions(client: Client) -> None:
    """The broker asks about a half every 30 s, the first time when it is 6 s old."""
    producer = {"clientID": "p", "producerDataSet": [{"groupName": "PG"}], "consumerDataSet": []}
    assert client.call(34, json.dumps(producer).encode()).code == 0
    properties = {"TRAN_MSG": "true", "PGROUP": "PG", "UNIQ_KEY": "half"}
    assert client.send("Asked", properties=properties).code == 0
    changed(client, transactionTimeOut=0, transactionCheckInterval=10)
    client.wait_pushed(10)
    assert client.pushed[0].code == 39
    changed(client, transactionTimeOut=6000, transactionCheckInterval=30_000)
