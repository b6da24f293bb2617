"""Watchers where servers fail in part: what is known counts, and nothing ends by the rest."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pyrmq.admin.link import AdminLink, Replica
from pyrmq.admin.monitoring.alarms import Sample
from pyrmq.admin.monitoring.asked_once import TopicNames
from pyrmq.admin.monitoring.groups import DeadLetterWatcher, GroupWatcher, MovedOffsetWatcher
from pyrmq.admin.monitoring.metrics import Subject
from pyrmq.admin.monitoring.rounds import Round, Watcher
from pyrmq.admin.monitoring.servers import ServerWatcher
from pyrmq.admin.monitoring.settings import Settings, parse
from pyrmq.admin.monitoring.watchers import watchers
from pyrmq.engine import Command
from pyrmq.errors import (
    ConfigError,
    ConnectError,
    RequestTimeoutError,
    ResponseError,
    TopicNotExistError,
)
from pyrmq.model.codes import RequestCode, ResponseCode
from pyrmq.model.route import BrokerData, ClusterInfo
from pyrmq.net import fastjson

A, B = Replica("c", "a", 0, "1.1.1.1:1"), Replica("c", "b", 0, "2.2.2.2:2")
OFFLINE = ResponseError("nobody", ResponseCode.CONSUMER_NOT_ONLINE)
SILENT = RequestTimeoutError("no answer within 5 s")
GONE = ConnectError("cannot connect")


def answer(code: int, body: bytes) -> Command:
    return cast(Command, SimpleNamespace(code=code, body=body, ext={}))


class Script(AdminLink):
    """Answers from a table: by address and code a JSON object, an error, or nothing."""

    def __init__(self, topics: set[str]) -> None:
        super().__init__([("9.9.9.9", 9876)])
        self.names = topics
        self.brokers = [A, B]
        self.known = [A, B]
        self.says: dict[tuple[str, int], dict[str, Any] | Exception] = {}

    async def topics(self) -> set[str]:
        return self.names

    async def brokers_of(self, topic: str) -> list[Replica]:
        if topic not in self.names:
            raise TopicNotExistError(topic)
        return self.brokers

    async def cluster_info(self) -> ClusterInfo:
        info = ClusterInfo()
        for r in self.known:
            broker = info.brokers.setdefault(
                r.broker_name, BrokerData(r.cluster, r.broker_name, {})
            )
            broker.broker_addrs[r.broker_id] = r.address
        self.expected.note(info)
        return info

    async def call(self, server: Any, code: int, *_: Any, **options: Any) -> Command:
        address = server if isinstance(server, str) else "{}:{}".format(*server)
        found = self.says.get((address, code), {})
        if isinstance(found, ResponseError):
            return answer(found.code or 1, b"")
        if isinstance(found, Exception):
            raise found
        return answer(0, json.dumps(found).encode())

    async def ask_json(self, server: Any, code: int, *_: Any, **options: Any) -> dict[Any, Any]:
        found = self.says.get((server, code), {})
        if isinstance(found, Exception):
            raise found
        return fastjson.loads_object(fastjson.dumps(found))


Found = dict[str, Sample]


async def watch(
    watcher: Watcher, settings: Settings | None = None, number: int = 1
) -> tuple[Round, Found]:
    found: Found = {}
    round_ = Round(number, settings or Settings(), lambda s: found.__setitem__(_name(s.subject), s))
    await watcher.watch(round_)
    return round_, found


def _name(subject: Subject) -> str:
    return f"{subject.metric} {subject.text}"


def queues(broker: str, **row: int) -> dict[Any, Any]:
    return {(("brokerName", broker), ("queueId", 0), ("topic", "T")): row}


def lag(broker: str, end: int, consumed: int) -> dict[str, Any]:
    rows = queues(
        broker, brokerOffset=end, consumerOffset=consumed, lastTimestamp=0, minOffset=consumed + 7
    )
    return {"offsetTable": rows, "consumeTps": 1.0}


@pytest.fixture
def link() -> Script:
    return Script({"%RETRY%g", "%DLQ%g", "T"})


STATS, MEMBERS = RequestCode.GET_CONSUME_STATS, RequestCode.GET_CONSUMER_CONNECTION_LIST
INFO, ENDS = RequestCode.GET_CONSUMER_RUNNING_INFO, RequestCode.GET_TOPIC_STATS_INFO
LAG = Subject("lag", "g", "T")


async def test_half_of_the_brokers(link: Script) -> None:
    for replica in (A, B):
        link.says[replica.address, MEMBERS] = OFFLINE
    link.says[A.address, STATS] = lag("a", 100, 40)
    link.says[B.address, STATS] = SILENT
    round_, found = await watch(GroupWatcher(link, TopicNames(link)))
    sample = found["lag group g, topic T"]
    assert (sample.value, sample.partial) == (60, True)
    assert found["gone group g, topic T"].value == 7
    assert found["offline group g"].value == 1
    assert round_.report.problems == ["group g: 2.2.2.2:2: no answer within 5 s"]
    assert not round_.is_gone(Subject("lag", "g", "other"))


async def test_no_broker_of_a_group(link: Script) -> None:
    for replica in (A, B):
        link.says[replica.address, STATS] = SILENT
    round_, found = await watch(GroupWatcher(link, TopicNames(link)))
    assert found == {}
    assert round_.report.problems == ["group g: no answer within 5 s"]
    assert not round_.is_gone(LAG)
    assert round_.is_gone(Subject("lag", "deleted", "T"))


async def test_whether_a_group_is_offline_is_not_said_where_a_broker_is_silent(
    link: Script,
) -> None:
    link.says[A.address, STATS] = lag("a", 100, 40)
    link.says[A.address, MEMBERS] = OFFLINE
    link.says[B.address, MEMBERS] = SILENT
    round_, found = await watch(GroupWatcher(link, TopicNames(link)))
    assert found["lag group g, topic T"].value == 60
    assert "offline group g" not in found
    assert not round_.is_gone(Subject("offline", "g"))
    assert round_.is_gone(Subject("lag", "g", "other"))


async def test_a_member_that_does_not_answer(link: Script) -> None:
    link.says[A.address, MEMBERS] = {
        "connectionSet": [
            {"clientId": "old", "version": 61},
            {"clientId": "new\x1b[2J", "version": 62},
        ]
    }
    link.says[A.address, INFO] = SILENT
    round_, found = await watch(GroupWatcher(link, TopicNames(link)))
    assert found["blocked_queues group g"].partial
    assert round_.report.problems == ["group g: member new\x1b[2J: no answer within 5 s"]
    assert round_.report.asked == round_.report.failed == 1


async def test_members_are_not_asked_where_nobody_wants_to_know(link: Script) -> None:
    link.says[A.address, MEMBERS] = SILENT
    names = ("blocked_queues", "pull_stalled", "failed_tps", "failed_hour", "subscriptions")
    off = "".join(f"[thresholds.{n}]\nenabled = false\n" for n in (*names, "offline"))
    round_, _ = await watch(GroupWatcher(link, TopicNames(link)), parse(off))
    assert round_.report.problems == []


async def test_a_name_server_without_topics_ends_no_alarm(link: Script) -> None:
    link.names = set()
    watcher = GroupWatcher(link, TopicNames(link))
    found: list[Sample] = []
    round_ = Round(1, Settings(), found.append)
    await round_.guarded("groups", watcher.watch(round_))
    assert "knows no topic" in round_.report.problems[0]
    assert not round_.is_gone(LAG)


async def test_groups_that_are_not_watched(link: Script) -> None:
    link.names = {"%RETRY%g", "%RETRY%g+T", "%RETRY%h", "%RETRY%", "T"}
    settings = parse("[watch]\nnot_groups = ['h']\n")
    round_, _ = await watch(GroupWatcher(link, TopicNames(link)), settings)
    assert round_.report.asked == 1


async def test_dead_letters_of_a_broker_that_was_silent_come_later(link: Script) -> None:
    watcher = DeadLetterWatcher(link, TopicNames(link))

    async def growth(a: int | None, b: int | None, number: int) -> tuple[float, bool] | None:
        for replica, end in ((A, a), (B, b)):
            says = {"offsetTable": queues(replica.broker_name, maxOffset=end or 0)}
            link.says[replica.address, ENDS] = SILENT if end is None else says
        _, found = await watch(watcher, number=number)
        sample = found.get("dlq_growth group g")
        return sample and (sample.value, sample.partial)

    assert await growth(5, None, 1) is None
    assert await growth(6, 7, 2) == (1, False)
    assert await growth(6, None, 3) == (0, True)
    assert await growth(8, 9, 4) == (4, False)
    assert await growth(8, 3, 5) == (0, False)  # deleted, and made again


async def test_servers(link: Script) -> None:
    code = RequestCode.GET_BROKER_HA_STATUS
    slave = Replica("c", "b", 1, "3.3.3.3:3")
    link.known = [A, B, slave]
    link.says[A.address, code] = {
        "master": True,
        "haConnectionInfo": [{"addr": "s1", "diff": 5}, {"addr": "s2", "diff": 9}],
    }
    link.says[B.address, code] = ResponseError("?", ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
    link.says[slave.address, code] = GONE
    link.says["9.9.9.9:9876", RequestCode.GET_BROKER_CLUSTER_INFO] = SILENT
    now = 0.0
    watcher = ServerWatcher(link, lambda: now)
    settings = parse("[rounds]\nforget = 100\n")
    runtime = RequestCode.GET_BROKER_RUNTIME_INFO
    link.says[A.address, runtime] = {
        "table": {
            "commitLogDiskRatio": "0.5", "consumeQueueDiskRatio": "0.91", "connections": "7",
            "refusesMessages": "the disk is full",
        }
    }  # fmt: skip
    link.says[B.address, runtime] = {"table": {"commitLogDiskRatio": "-1", "putTps": "1 2 3"}}
    round_, found = await watch(watcher, settings)
    assert {name: s.value for name, s in found.items()} == {
        "server_down server 9.9.9.9:9876": 1,
        "server_down server a 1.1.1.1:1": 0,
        "server_down server b 2.2.2.2:2": 0,
        "server_down server b 3.3.3.3:3": 1,
        "replication_behind server a 1.1.1.1:1": 9,
        "disk server a 1.1.1.1:1": 91,
        "refused_sends server a 1.1.1.1:1": 1,
        "connections server a 1.1.1.1:1": 7,
        "master_missing server a": 0,
        "master_missing server b": 0,
        "slaves_missing server a": 0,
        "slaves_missing server b": 1,
    }
    assert found["refused_sends server a 1.1.1.1:1"].detail == "the disk is full"
    assert found["replication_behind server a 1.1.1.1:1"].detail == "slave s2"
    assert not round_.is_gone(Subject("replication_behind", server="b 2.2.2.2:2"))
    # Name servers forget what is dead; here it is missed for its time, and then forgotten.
    link.known = [A, B]
    down = Subject("server_down", server="b 3.3.3.3:3")
    now = 100.0
    _, found = await watch(watcher, settings)
    assert found[_name(down)].value == 1
    now = 201.0
    round_, found = await watch(watcher, settings)
    assert _name(down) not in found
    assert round_.is_gone(down)


async def test_a_broker_that_moved_is_not_missed_where_it_was(link: Script) -> None:
    watcher = ServerWatcher(link, lambda: 0.0)
    await watch(watcher)
    link.known = [A, Replica("c", "b", 0, "4.4.4.4:4")]
    _, found = await watch(watcher)
    downs = {s.subject.server for s in found.values() if s.subject.metric == "server_down"}
    assert downs == {"9.9.9.9:9876", "a 1.1.1.1:1", "b 4.4.4.4:4"}


async def test_masters_and_slaves_that_are_missing(link: Script) -> None:
    code = RequestCode.GET_BROKER_HA_STATUS
    slave = Replica("c", "a", 1, "3.3.3.3:3")
    link.known = [A, B, slave]
    alone = {"master": True, "haConnectionInfo": []}
    link.says[A.address, code] = alone
    link.says[slave.address, code] = {"master": False}
    watcher = ServerWatcher(link, lambda: 0.0)
    _, found = await watch(watcher)
    assert found["slaves_missing server a"].value == 1  # it is there, and does not follow
    link.says[A.address, code] = {**alone, "haConnectionInfo": [{"addr": "s", "diff": 0}]}
    _, found = await watch(watcher)
    assert found["slaves_missing server a"].value == 0
    link.known = [slave]
    link.says[A.address, code] = link.says[B.address, code] = GONE
    _, found = await watch(watcher)
    assert [found[f"master_missing server {name}"].value for name in "ab"] == [1, 1]
    assert "b (was 2.2.2.2:2) is missing" in found["master_missing server b"].detail
    assert "a's master (was 1.1.1.1:1) is missing" in found["master_missing server a"].detail


async def test_brokers_that_are_expected_are_missed_at_the_first_round(link: Script) -> None:
    admin: Any = SimpleNamespace(link=link)
    settings = parse("[watch]\nexpect = ['a:2', 'c/new']\n")
    (watcher,) = (w for w in watchers(admin, settings) if w.name == "servers")
    _, found = await watch(watcher, settings)
    assert found["slaves_missing server a"].value == 1
    assert found["master_missing server new"].value == 1
    assert "it is expected" in found["master_missing server new"].detail
    with pytest.raises(ConfigError, match=r"watch\.expect: 'a:x' is no broker"):
        parse("[watch]\nexpect = ['a:x']\n")


async def test_no_broker_writes_events(link: Script) -> None:
    round_, found = await watch(MovedOffsetWatcher(link))
    assert found == {}
    assert round_.is_gone(Subject("offset_moved", "g", "T"))
