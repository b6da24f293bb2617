"""Old files deleted on command, and several commit-log folders, through broker.conf.

DELETE_EXPIRED_COMMITLOG deletes log files whose fileReservedTime is over, in order; queues and
index follow. Files are made old by their times, as nobody waits for hours here.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.client import Client
from tests.support.disk_room import needs_room
from tests.support.operators import (
    CLEAN_EXPIRED_CONSUMEQUEUE,
    DELETE_EXPIRED_COMMITLOG,
    await_hits,
    no_hits,
)
from tests.support.records import parse_message_id
from tests.support.server import ServerProcess
from tests.support.waiting import eventually

FILE = 16_384
QUEUES = 2
DAY = 86_400
PULL_OFFSET_MOVED = 21
ENGINE_LINE = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} INFO pyrmq\.engine\.store: "

pytestmark = needs_room


def conf(*more: str) -> str:
    """Files are kept for an hour; the hour of day at which they go by themselves is far off.

    Only what is on disk may be deleted, hence SYNC_FLUSH where a test does not wait.
    """
    keys = {
        "mappedFileSizeCommitLog": FILE,
        "mappedFileSizeConsumeQueue": 20 * 4,
        "maxHashSlotNum": 10,
        "maxIndexNum": 20,
        "fileReservedTime": 1,
        "deleteWhen": f"{(time.localtime().tm_hour + 12) % 24:02d}",
        "cleanResourceInterval": 100,
        "deleteCommitLogFilesInterval": 0,
        "diskMaxUsedSpaceRatio": 95,
        "cleanFileForciblyEnable": "false",
    }
    return "\n".join([*(f"{key}={value}" for key, value in keys.items()), *more, ""])


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    """Where the log files of the server are."""
    return [tmp_path / "store" / "commitlog"]


@pytest.fixture
def server(tmp_path: Path, folders: list[Path]) -> Iterator[ServerProcess]:
    paths = f"storePathCommitLog={','.join(map(str, folders))}"
    with ServerProcess(tmp_path / "store", flush="SYNC_FLUSH", conf=conf(paths)) as running:
        yield running


def log_files(folders: list[Path]) -> dict[int, Path]:
    """The log files by the physical offset at which they start, in order."""
    found = {int(path.name): path for folder in folders for path in folder.iterdir()}
    return dict(sorted(found.items()))


class Sent:
    """Numbered messages, some 3 KiB each, with the key k{number}; number n is in queue n % 2."""

    def __init__(self) -> None:
        self.places: list[int] = []

    def fill(self, client: Client, count: int) -> None:
        for n in range(len(self.places), len(self.places) + count):
            keys = {"KEYS": f"k{n}"}
            answer = client.send(
                "T", b"%05d" % n * 600, queue_id=n % QUEUES, queues=QUEUES, properties=keys
            )
            assert answer.code == 0, answer.remark
            assert int(answer.ext["queueOffset"]) == n // QUEUES
            self.places.append(parse_message_id(answer.ext["msgId"])[1])

    def check(self, client: Client, first_byte: int) -> int:
        """What lies before `first_byte` of the log is gone, the rest can be read and found."""
        kept = [n for n, place in enumerate(self.places) if place >= first_byte]
        for queue_id in range(QUEUES):
            mine = [n for n in kept if n % QUEUES == queue_id]
            low, high = client.min_offset("T", queue_id), client.max_offset("T", queue_id)
            assert (low, high) == (mine[0] // QUEUES, mine[-1] // QUEUES + 1)
            bodies = [r.body[:5] for r in client.pull_all("T", queue_id, low, high)]
            assert bodies == [b"%05d" % n for n in mine]
            if low > 0:
                pulled = client.pull("T", queue_id, 0)
                assert (pulled.code, pulled.next_offset) == (PULL_OFFSET_MOVED, low)
        for n in range(len(self.places)):
            if n < kept[0]:
                assert no_hits(client, "T", f"k{n}")
            else:
                await_hits(client, "T", f"k{n}", 1)
        return kept[0]


def make_old(*paths: Path) -> None:
    for path in paths:
        then = time.time() - 2 * DAY
        os.utime(path, (then, then))


def waits(server: ServerProcess, thread: str) -> int:
    """How often a thread of the server has gone to sleep."""
    for task in Path(f"/proc/{server.pid}/task").iterdir():
        if (task / "comm").read_text() == f"{thread}\n":
            found = re.search(
                r"^voluntary_ctxt_switches:\s+(\d+)$", (task / "status").read_text(), re.M
            )
            assert found is not None
            return int(found[1])
    raise AssertionError(f"no thread {thread}")


def await_index(client: Client, sent: Sent) -> None:
    """Until the index leads to the last message and so to all before it."""
    await_hits(client, "T", f"k{len(sent.places) - 1}", 1)


def test_expired_files_go_on_command(server: ServerProcess, folders: list[Path]) -> None:
    sent = Sent()
    with Client(server.broker) as client:
        sent.fill(client, 40)
        await_index(client, sent)
        before = log_files(folders)
        assert len(before) >= 8
        index_files = len(list((server.store / "index").iterdir()))
        for code in (DELETE_EXPIRED_COMMITLOG, CLEAN_EXPIRED_CONSUMEQUEUE):
            assert client.call(code).code == 0
        assert sent.check(client, 0) == 0, "nothing is old enough"

        make_old(*list(before.values())[:4])
        answer = client.call(DELETE_EXPIRED_COMMITLOG)
        assert (answer.code, answer.body) == (0, b"")
        lines = eventually(  # a thread writes the log
            lambda: [line for line in server.stderr_text().splitlines() if "is deleted" in line],
            "the log names the files",
            until=lambda lines: len(lines) >= 4,
        )
        assert len(lines) == 4
        assert all(re.match(ENGINE_LINE, line) for line in lines), lines
        assert min(log_files(folders)) == 4 * FILE
        assert sent.check(client, 4 * FILE) > 15
        eventually(
            lambda: len(list((server.store / "index").iterdir())) < index_files,
            "index files whose messages are gone go too",
        )
        first = min((server.store / "consumequeue" / "T" / "0").iterdir())
        assert int(first.name) > 0, "so do queue files"

        assert client.call(CLEAN_EXPIRED_CONSUMEQUEUE).code == 0
        sent.fill(client, 20)
        sent.check(client, 4 * FILE)
    for stop in (server.terminate, server.kill):
        stop()
        server.restart()
        with Client(server.broker) as client:
            sent.check(client, 4 * FILE)


def test_only_the_oldest_files_go(server: ServerProcess, folders: list[Path]) -> None:
    """An old file behind a young one stays: the log has no holes. So does the newest."""
    sent = Sent()
    with Client(server.broker) as client:
        sent.fill(client, 30)
        await_index(client, sent)
        paths = list(log_files(folders).values())
        make_old(paths[0], *paths[2:])
        assert client.call(DELETE_EXPIRED_COMMITLOG).code == 0
        assert min(log_files(folders)) == FILE
        sent.check(client, FILE)
        make_old(*log_files(folders).values())
        assert client.call(DELETE_EXPIRED_COMMITLOG).code == 0
        last = sent.places[-1] // FILE * FILE
        assert min(log_files(folders)) == last
        sent.check(client, last)
        sent.fill(client, 10)
        sent.check(client, last)


def test_nothing_goes_by_itself_at_another_hour(server: ServerProcess, folders: list[Path]) -> None:
    """Rounds come ten times a second here; deleteWhen is twelve hours away."""
    sent = Sent()
    with Client(server.broker) as client:
        sent.fill(client, 20)
        make_old(*log_files(folders).values())
        before = waits(server, "pyrmq-clean")
        what = "five more rounds have come"
        eventually(lambda: waits(server, "pyrmq-clean") - before, what, until=lambda n: n > 5)
        assert sent.check(client, 0) == 0


def test_files_go_by_themselves_at_their_hour(tmp_path: Path, folders: list[Path]) -> None:
    hours = ";".join(f"{hour:02d}" for hour in range(24))
    with ServerProcess(tmp_path / "store", conf=conf(f"deleteWhen={hours}")) as server:
        sent = Sent()
        with Client(server.broker) as client:
            sent.fill(client, 20)
            await_index(client, sent)
            paths = list(log_files(folders).values())
            make_old(*paths[:2])
            eventually(
                lambda: not any(path.exists() for path in paths[:2]), "the two oldest are gone"
            )
            what = "the queues begin behind them"
            eventually(lambda: [client.min_offset("T", q) for q in range(QUEUES)], what, until=all)
            sent.check(client, 2 * FILE)


class TestSeveralFolders:
    """storePathCommitLog names three folders, also outside the store: files go to all in turn."""

    @pytest.fixture
    def folders(self, tmp_path: Path) -> list[Path]:
        return [tmp_path / "a" / "log", tmp_path / "b", tmp_path / "store" / "commitlog"]

    def test_written_read_and_found_again(self, server: ServerProcess, folders: list[Path]) -> None:
        sent = Sent()
        with Client(server.broker) as client:
            sent.fill(client, 40)
        assert all(len(list(folder.iterdir())) >= 2 for folder in folders)
        starts = list(log_files(folders))
        assert starts == [n * FILE for n in range(len(starts))], "each file is in one folder"
        for stop in (server.kill, server.terminate):
            stop()
            server.restart()
            with Client(server.broker) as client:
                assert sent.check(client, 0) == 0
                sent.fill(client, 7)
                sent.check(client, 0)

    def test_expired_files_go_from_all_of_them(
        self, server: ServerProcess, folders: list[Path]
    ) -> None:
        sent = Sent()
        with Client(server.broker) as client:
            sent.fill(client, 40)
            await_index(client, sent)
            make_old(*list(log_files(folders).values())[:5])
            assert client.call(DELETE_EXPIRED_COMMITLOG).code == 0
            assert min(log_files(folders)) == 5 * FILE
            sent.check(client, 5 * FILE)
        server.kill()
        server.restart()
        with Client(server.broker) as client:
            sent.check(client, 5 * FILE)
            sent.fill(client, 10)
            sent.check(client, 5 * FILE)
