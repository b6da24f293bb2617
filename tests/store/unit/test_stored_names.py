"""Topics that clients cannot make but other brokers and tools did: their messages are served, and
the store that has them is sound. A name that no folder can have is told once."""

from __future__ import annotations

from pathlib import Path

import pytest

import pyrmq
from pyrmq.engine import inspect_store
from pyrmq.errors import MessageIllegalError
from tests.segments.making import put, small
from tests.store.tools import image, log_file, opened, read_all, rename_topic
from tests.store.unit.test_offline import check, damage

NAMES = {
    "test.test1": "test-test1",
    "%RETRY%group+Topic": "%RETRY%group-Topic",
    "a b": "a-b",
    "\u00e4": "Z9",
    "x" * 200: "%DLQ%" + "x" * 195,
}
"""And what they are called as the store is made."""


def fill(root: Path, killed: Path) -> None:
    with small(root) as store:
        for n in range(30):
            for name, stand_in in NAMES.items():
                put(store, stand_in, n % 2, f"{name} {n}".encode())
            put(store, "Plain", 0, b"plain")
        image(root, killed)
    for folder in (root, killed):
        for name, stand_in in NAMES.items():
            rename_topic(folder, stand_in, name)


def bodies(root: Path, name: str, queue: int) -> list[bytes]:
    with opened(root) as store:
        return [record.body for record in read_all(store)[name, queue]]


def expected(name: str, queue: int) -> list[bytes]:
    return [f"{name} {n}".encode() for n in range(30) if n % 2 == queue]


@pytest.fixture
def roots(tmp_path: Path) -> tuple[Path, Path]:
    root, killed = tmp_path / "store", tmp_path / "killed"
    fill(root, killed)
    return root, killed


@pytest.mark.parametrize("name", list(NAMES))
def test_they_are_served_also_after_a_kill(roots: tuple[Path, Path], name: str) -> None:
    for root in roots:
        assert bodies(root, name, 1) == expected(name, 1)


def test_queues_that_are_gone_are_made_again(roots: tuple[Path, Path]) -> None:
    """As after a broker that left these topics alone: what it stored has no entries."""
    _, killed = roots
    for folder in (killed / "consumequeue").iterdir():
        for file in folder.rglob("0*"):
            if file.is_file():
                file.unlink()
    for name in NAMES:
        assert bodies(killed, name, 0) == expected(name, 0)


def test_the_store_is_sound(roots: tuple[Path, Path]) -> None:
    root, _ = roots
    assert not damage(root)
    found = {queue["topic"] for queue in inspect_store(root)["queues"]}
    assert found == {*NAMES, "Plain"}


def test_they_are_scanned(roots: tuple[Path, Path]) -> None:
    root, _ = roots
    for name in NAMES:
        table = pyrmq.scan(str(root), topics=[name], columns=["topic", "body"]).to_arrow()
        assert set(table["topic"].to_pylist()) == {name}
        assert table.num_rows == 30
    everything = pyrmq.scan(str(root), columns=["topic"]).to_arrow()
    assert everything.num_rows == 30 * (len(NAMES) + 1)


@pytest.mark.parametrize("name", ["a/b", "..", "a\n", "x" * 256, ""])
def test_names_that_no_folder_can_have(tmp_path: Path, name: str) -> None:
    with opened(tmp_path / "store") as store, pytest.raises(MessageIllegalError, match="folder"):
        store.set_topic(name, read_queues=1, write_queues=1)


def test_a_record_of_no_queue_is_told_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    root, killed = tmp_path / "store", tmp_path / "killed"
    with opened(root) as store:
        for _ in range(50):
            store.put("Plain", 0, b"plain")
            store.put("a-b", 0, b"foreign")
        image(root, killed)
    path = log_file(killed)
    path.write_bytes(path.read_bytes().replace(b"\x03a-b", b"\x03a/b"))
    capfd.readouterr()
    with opened(killed) as store:
        assert len(read_all(store)["Plain", 0]) == 50
    told = capfd.readouterr().err
    assert told.count('is in no queue: topic "a/b"') == 1
    table = pyrmq.scan(str(killed), columns=["topic"]).to_arrow()
    assert table["topic"].to_pylist().count("a/b") == 50
    (killed / "config").mkdir(exist_ok=True)
    (killed / "config" / "topics.json").write_text('{"topicConfigTable":{"a/b":{"perm":6}}}')
    table = pyrmq.scan(str(killed), topics=["a/b"], columns=["body"]).to_arrow()
    assert table["body"].to_pylist() == [b"foreign"] * 50
    _, findings = check(killed)
    assert sum('no queue can have topic "a/b"' in text for *_, text in findings) == 50
