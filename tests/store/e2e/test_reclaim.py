"""reclaimAfter=table: log files go before their time only if nobody needs anything of them.

All hours are of deleteWhen here, and fileReservedTime is far: what goes, goes because of the
offsets that the group of tables has committed.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pyrmq.cli import main
from pyrmq.net.address import format_address
from tests.store.e2e.test_expired_files import FILE, QUEUES, Sent, log_files
from tests.support.client import PULL_COMMIT, PULL_SUBSCRIPTION, Client, Closed, pull_command
from tests.support.disk_room import needs_room
from tests.support.operators import DELETE_EXPIRED_COMMITLOG, create_topic
from tests.support.popping import ack, pop
from tests.support.records import parse_message_id
from tests.support.server import ServerProcess
from tests.support.thorough import seeds, size
from tests.support.transactions import COMMIT, end, send_half
from tests.support.waiting import eventually

QUERY_CONSUMER_OFFSET, UPDATE_CONSUMER_OFFSET, DISK = 14, 15, 27003
NO_PERMISSION, INVALID_PARAMETER = 16, 29
DELETE_TOPIC, DELETE_GROUP, RESET, CLONE = 215, 207, 222, 314
TABLES = "Tables"
DAY_MS = 86_400_000
HOURS = ";".join(f"{hour:02d}" for hour in range(24))

pytestmark = needs_room


def conf(**more: object) -> str:
    keys = {
        "mappedFileSizeCommitLog": FILE,
        "mappedFileSizeConsumeQueue": 20 * 4,
        "maxHashSlotNum": 10,
        "maxIndexNum": 20,
        "fileReservedTime": 72,
        "deleteWhen": HOURS,
        "cleanResourceInterval": 100,
        "deleteCommitLogFilesInterval": 0,
        "cleanFileForciblyEnable": "false",
        "timerFlushIntervalMs": 100,
        "reclaimAfter": "table",
        "reclaimGroup": TABLES,
        **more,
    }
    return "\n".join([*(f"{key}={value}" for key, value in keys.items()), ""])


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "store", flush="SYNC_FLUSH", conf=conf()) as running:
        yield running


class Log:
    """The log of a server, and what a test asks about it."""

    def __init__(self, server: ServerProcess, client: Client) -> None:
        self.server, self.client = server, client
        self.sent = Sent()

    def begins(self) -> int:
        return min(log_files([self.server.store / "commitlog"]))

    def commit(self, upto: int, group: str = TABLES, topic: str = "T") -> None:
        """The first `upto` numbered messages, which are in the queues in turns."""
        for queue in range(QUEUES):
            offset = len(range(queue, upto, QUEUES))
            answer = commit(self.client, topic, queue, offset, group)
            assert answer.code == 0, answer.remark

    def state(self) -> dict[str, Any]:
        answer = self.client.call(DISK)
        assert answer.code == 0, answer.remark
        found: dict[str, Any] = json.loads(answer.body)["reclaim"]
        return found

    def kept_by(self, what: str, place: int = 0) -> None:
        """The broker says that this keeps the log; all whole files before the place go, and no
        other."""
        first = place // FILE * FILE
        eventually(lambda: self.state()["why"], f"{what} keeps the log", until=lambda w: what in w)
        eventually(self.begins, f"the log begins at {first}", until=lambda at: at == first)
        assert self.client.call(DELETE_EXPIRED_COMMITLOG).code == 0
        assert self.begins() == first

    def goes_to(self, number: int) -> None:
        """All whole files before a message go, and no other. Each queue has a message behind."""
        first = self.sent.places[number] // FILE * FILE
        eventually(self.begins, f"the log begins at {first}", until=lambda at: at == first)
        kept = next(n for n, place in enumerate(self.sent.places) if place >= first)
        eventually(
            lambda: [self.client.min_offset("T", queue) for queue in range(QUEUES)],
            "the queues follow",
            until=lambda found: sum(found) == kept,
        )
        self.sent.check(self.client, first)


def commit(client: Client, topic: str, queue: int, offset: int, group: str = TABLES) -> Any:
    return client.call(
        UPDATE_CONSUMER_OFFSET,
        consumerGroup=group,
        topic=topic,
        queueId=queue,
        commitOffset=offset,
    )


@contextmanager
def served(folder: Path, **keys: object) -> Iterator[Log]:
    """The log of a server with these keys."""
    with (
        ServerProcess(folder / "store", flush="SYNC_FLUSH", conf=conf(**keys)) as server,
        Client(server.broker) as client,
    ):
        yield Log(server, client)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with served(tmp_path) as running:
        yield running


def test_what_a_table_has_goes(log: Log) -> None:
    log.sent.fill(log.client, 40)
    log.kept_by("topic T, queue 0: no table has it yet (group Tables)")
    log.commit(20)
    log.goes_to(20)
    assert not log.server.stderr_text().count("fileReservedTime is over")
    log.commit(21)  # of one queue only
    log.kept_by("queue 1: no table has it yet", log.sent.places[21])
    log.commit(36)
    log.goes_to(36)


def test_a_group_that_consumes_counts_as_well(log: Log) -> None:
    log.sent.fill(log.client, 40)
    log.commit(3, group="slow")
    log.commit(36)
    log.kept_by("group slow, which has not consumed it", log.sent.places[3])
    log.commit(20, group="slow")
    log.goes_to(20)
    assert log.client.call(DELETE_GROUP, groupName="slow", cleanOffset="true").code == 0
    log.goes_to(36)


def test_a_topic_without_a_table_is_kept(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "store", flush="SYNC_FLUSH", conf=conf()) as server:
        with Client(server.broker) as client:
            log = Log(server, client)
            log.sent.fill(client, 10)
            other = client.send("Other", b"one")
            assert other.code == 0
            log.sent.fill(client, 30)
            log.commit(36)
            place = parse_message_id(other.ext["msgId"])[1]
            log.kept_by("topic Other, queue 0: no table has it yet", place)
        server.terminate()
        server.conf = conf(reclaimTopicsWithoutTable="Nobody, Oth*")
        server.restart()
        with Client(server.broker) as client:
            log.client = client
            log.goes_to(36)


def test_messages_of_a_deleted_topic_are_nobodys(log: Log) -> None:
    create_topic(log.client, "Other")
    log.client.send("Other", b"one")
    log.sent.fill(log.client, 40)
    log.commit(36)
    log.kept_by("topic Other")
    assert log.client.call(DELETE_TOPIC, topic="Other").code == 0
    log.goes_to(36)


def test_delayed_messages_and_timers_that_wait(log: Log) -> None:
    assert log.client.send("T2", b"later", properties={"DELAY": "18"}).code == 0
    log.sent.fill(log.client, 20)
    log.commit(20)
    log.kept_by("delayed messages that wait")


def test_timers_that_wait(log: Log) -> None:
    assert log.client.send("T2", b"later", properties={"TIMER_DELAY_MS": "3600000"}).code == 0
    log.sent.fill(log.client, 20)
    log.commit(20)
    log.kept_by("timer messages that wait")


def test_what_is_delivered_is_not_kept(tmp_path: Path) -> None:
    with served(tmp_path, reclaimTopicsWithoutTable="T2") as log:
        for properties in ({"DELAY": "1"}, {"TIMER_DELAY_MS": "1000"}):
            assert log.client.send("T2", b"soon", properties=properties).code == 0
        log.sent.fill(log.client, 40)
        log.commit(36)
        eventually(lambda: log.client.max_offset("T2", 0), "both are there", until=lambda n: n == 2)
        log.goes_to(36)


def test_popped_messages_until_they_are_settled(log: Log) -> None:
    log.sent.fill(log.client, 10)
    group = "Poppers"
    (first, *_) = pop(log.client, "T", group, maxMsgNums=1, queueId=0, invisibleTime=4000)
    log.commit(10)
    for queue in range(QUEUES):  # what a group pops is committed at once
        assert commit(log.client, "T", queue, 5, group).code == 0
    log.sent.fill(log.client, 30)
    log.commit(36)
    log.commit(36, group=group)
    log.kept_by("popped messages that are not settled")
    ack(log.client, first, group)
    log.goes_to(36)


def test_halves_until_they_are_decided(log: Log) -> None:
    half = send_half(log.client, "T2", b"half")
    log.sent.fill(log.client, 40)
    log.commit(36)
    log.kept_by("transactions that are not settled")
    create_topic(log.client, "T2")
    end(log.client, half, COMMIT)
    eventually(lambda: log.client.max_offset("T2", 0), "it is committed")
    assert commit(log.client, "T2", 0, 1).code == 0
    log.goes_to(36)


def test_whose_word_counts(log: Log) -> None:
    """Offsets of the group come by UPDATE_CONSUMER_OFFSET alone, and never from ahead."""
    log.sent.fill(log.client, 40)
    ahead = commit(log.client, "T", 0, 21)
    assert (ahead.code, "the table is of another broker" in ahead.remark) == (INVALID_PARAMETER, 1)
    commits = PULL_SUBSCRIPTION | PULL_COMMIT
    wanted = pull_command("T", 0, 0, group=TABLES, sys_flag=commits, change={"commitOffset": "20"})
    assert log.client.request(wanted).code == NO_PERMISSION
    reset = {"topic": "T", "group": TABLES, "timestamp": -1, "isForce": "true"}
    assert log.client.call(RESET, **reset).code == NO_PERMISSION
    log.commit(40, group="fast")
    clone = {"srcGroup": "fast", "destGroup": TABLES, "topic": "T"}
    assert log.client.call(CLONE, **clone).code == NO_PERMISSION
    log.kept_by("no table has it yet")


def test_strangers_may_not_say_what_tables_have(tmp_path: Path) -> None:
    with served(tmp_path, adminAddressAllowList="10.9.9.9") as log:
        log.sent.fill(log.client, 20)
        answer = commit(log.client, "T", 0, 10)
        assert (answer.code, "adminAddressAllowList" in answer.remark) == (NO_PERMISSION, True)
        assert commit(log.client, "T", 0, 10, "others").code == 0
        eventually(log.state, "it has looked", until=lambda r: "no table has it yet" in r["why"])
        assert log.begins() == 0


def test_off_by_default(tmp_path: Path) -> None:
    with served(tmp_path, reclaimAfter="off") as log:
        log.sent.fill(log.client, 20)
        log.commit(20)
        assert "reclaim" not in json.loads(log.client.call(DISK).body)
        assert log.client.call(DELETE_EXPIRED_COMMITLOG).code == 0
        assert log.begins() == 0


def test_the_report_says_what_goes_and_what_keeps_the_rest(tmp_path: Path) -> None:
    """Nothing is deleted at this hour: the report shows what would go."""
    later = f"{(time.localtime().tm_hour + 12) % 24:02d}"
    with served(tmp_path, deleteWhen=later) as log:
        log.sent.fill(log.client, 40)
        log.commit(20)
        place = log.sent.places[20]
        eventually(log.state, "20 messages are done with", until=lambda r: r["to"] == place)
        body = json.loads(log.client.call(DISK, files=64).body)  # measured anew
        early = [file["inTables"] for file in body["files"]]
        assert early == [file["end"] <= place for file in body["files"]]
        assert any(early)
        due = [file["due"] for file in body["files"][: sum(early)]]
        assert all(at is not None and at - body["now"] < DAY_MS for at in due)
        assert body["reclaim"]["why"].startswith("topic T, queue 0: no table")
        assert log.begins() == 0
        shown = CliRunner().invoke(
            main, ["admin", "broker", "disk", "-n", format_address(log.server.namesrv)]
        )
        assert f"{sum(early)} files are done with before fileReservedTime" in shown.output
        assert "what follows is needed: topic T, queue 0: no table" in shown.output


ROUNDS = size("PYRMQ_RECLAIM_ROUNDS", 3, 60)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds("reclaim-kill"))
def test_killed_at_any_moment(server: ServerProcess, seed: int) -> None:
    """Whatever is killed when: each message that the group has not committed can be read, and the
    log goes on to shrink."""
    chance = random.Random(seed)
    sent, done = Sent(), 0
    for _ in range(ROUNDS):
        with Client(server.broker) as client:
            log = Log(server, client)
            log.sent = sent
            killer = threading.Timer(chance.uniform(0.05, 0.6), server.kill)
            killer.start()
            try:
                while True:
                    log.sent.fill(client, chance.randrange(1, 8))
                    asked = chance.randrange(done, len(sent.places) + 1)
                    done = max(done, asked)  # it may count though nobody hears the answer
                    log.commit(asked)
            except (OSError, AssertionError, Closed):
                pass  # killed in the middle
            killer.join()
        server.restart()
        with Client(server.broker) as client:
            _settle(sent, client)
            sent.fill(client, 2 * QUEUES)
            first = min(queue + QUEUES * _committed(client, queue) for queue in range(QUEUES))
            assert first <= done, "the broker knows of no commit that nobody made"
            log = Log(server, client)
            log.sent = sent
            log.goes_to(first)
    with Client(server.broker) as client:
        log = Log(server, client)
        log.sent = sent
        log.sent.fill(client, 4)
        log.commit(len(sent.places) - 4)
        log.goes_to(len(sent.places) - 4)


def _committed(client: Client, queue: int) -> int:
    """The offset of the group of tables; 0: it has none."""
    place = {"consumerGroup": TABLES, "topic": "T", "queueId": queue}
    answer = client.call(QUERY_CONSUMER_OFFSET, setZeroIfNotFound="false", **place)
    return int(answer.ext["offset"]) if answer.code == 0 else 0


def _settle(sent: Sent, client: Client) -> None:
    """A message whose answer was lost may be stored: the numbers go on behind it."""
    ends = [client.max_offset("T", queue) for queue in range(QUEUES)]
    while len(sent.places) < sum(ends):
        number = len(sent.places)
        queue = number % QUEUES
        (record,) = client.pull("T", queue, number // QUEUES).records[:1]
        sent.places.append(record.physical_offset)
