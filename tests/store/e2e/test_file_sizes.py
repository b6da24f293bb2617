"""A broker that starts with other file sizes than its store has: it says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyrmq.broker.opening import explained
from pyrmq.errors import ConfigError, StoreDamagedError
from tests.support.client import Client
from tests.support.server import ServerFailed, ServerProcess

SMALL = "mappedFileSizeCommitLog=1048576\nmappedFileSizeConsumeQueue=6000\n"


def refused(server: ServerProcess) -> str:
    with pytest.raises(ServerFailed):
        server.start()
    return server.stderr_text().strip().splitlines()[-1]


def test_a_start_without_the_file_of_before(tmp_path: Path) -> None:
    """`-c` was forgotten: nothing is said of damage, nor of cutting or filling files."""
    server = ServerProcess(tmp_path / "store", conf=SMALL)
    with server, Client(server.broker) as client:
        for n in range(24):
            assert client.send("T", b"x" * 100_000, queue_id=n % 2).code == 0
    server.conf = ""
    text = refused(server)
    for words in ("commitlog", "has 1048576 bytes", "broker.conf (-c)"):
        assert words in text
    assert "or with mappedFileSizeCommitLog=1048576" in text
    server.conf = "mappedFileSizeCommitLog=1048576\n"
    queues = refused(server)
    assert "or with mappedFileSizeConsumeQueue=6000" in queues
    for line in (text, queues):
        assert "truncate" not in line
        assert "damage" not in line
    server.conf = SMALL
    with server.start(), Client(server.broker) as client:
        assert client.max_offset("T", 0) == 12


def store_with(root: Path, *sizes: int) -> Path:
    """A commit log with files of these sizes; the first of them."""
    folder = root / "commitlog"
    folder.mkdir()
    for n, size in enumerate(sizes):
        (folder / f"{n * 4096:020}").write_bytes(bytes(size))
    return folder / f"{0:020}"


def fault(file: Path, size: int = 8192) -> StoreDamagedError:
    error = StoreDamagedError("as the engine says it")
    error.path, error.configured_size = str(file), size
    return error


def test_files_of_which_one_was_cut(tmp_path: Path) -> None:
    """Others have the configured size: the engine's word counts."""
    error = fault(store_with(tmp_path, 4096, 8192))
    assert explained(error, tmp_path) is error
    other = StoreDamagedError("something else")
    assert explained(other, tmp_path) is other


def test_one_file_may_have_been_cut(tmp_path: Path) -> None:
    """The configuration comes first, and the other remedy behind it."""
    error = fault(store_with(tmp_path, 4096))
    found = explained(error, tmp_path)
    assert isinstance(found, StoreDamagedError)
    assert (found.path, found.configured_size) == (error.path, 8192)
    text = str(found)
    assert text.index("mappedFileSizeCommitLog=4096") < text.index("Only if 8192 is right")


def test_the_fields_count_and_not_the_text(tmp_path: Path) -> None:
    path = store_with(tmp_path, 4096)
    error = StoreDamagedError(f"{path}: file has 4096 bytes, the configured size is 8192")
    assert explained(error, tmp_path) is error
    error.path = str(path)
    assert explained(error, tmp_path) is error
    error.configured_size = 8192
    assert explained(error, tmp_path) is not error


def test_files_whose_names_do_not_fit(tmp_path: Path) -> None:
    """The first file was deleted, as retention does."""
    store_with(tmp_path, 4096, 4096, 4096).unlink()
    found = explained(fault(tmp_path / "commitlog" / f"{4096:020}"), tmp_path)
    assert isinstance(found, ConfigError)
    assert "each of its 2 files has 4096 bytes" in str(found)
