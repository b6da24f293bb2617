"""A log file that was cut under a running broker stands for a disk that cannot read a place."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.client import VIEW_MESSAGE_BY_ID, Client
from tests.support.server import ServerProcess
from tests.support.waiting import eventually

FILE = 65_536
COUNT = 30
SYSTEM_ERROR = 1


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    conf = f"mappedFileSizeCommitLog={FILE}\nmessageIndexEnable=false\n"
    with ServerProcess(tmp_path / "store", conf=conf) as running:
        yield running


def test_an_unreadable_place_is_an_error_of_those_who_read_it(server: ServerProcess):
    with Client(server.broker) as client:
        for n in range(COUNT):
            answer = client.send("T", b"%02d" % n * 2500, queues=1)
            assert answer.code == 0, answer.remark
        first = server.store / "commitlog" / f"{0:020}"
        whole = os.stat(first).st_size
        os.truncate(first, 4096)

        refused = client.pull("T", 0, 3)
        assert refused.code == SYSTEM_ERROR
        answer = client.call(VIEW_MESSAGE_BY_ID, offset=8192)
        assert answer.code == SYSTEM_ERROR
        records = client.pull_all("T", 0, 20, COUNT)
        assert [r.body[:2] for r in records] == [b"%02d" % n for n in range(20, COUNT)]
        assert client.send("T", b"goes on", queues=1).code == 0
        said = f"read {first}: a place in its bytes"
        eventually(lambda: said in server.stderr_text(), "the broker's log says it")

        os.truncate(first, whole)  # holes now: the messages are damaged, and left out
        assert client.pull("T", 0, 3).code != SYSTEM_ERROR
