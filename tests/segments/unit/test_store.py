from __future__ import annotations

import json
import logging
import os
import pickle
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from pyrmq.errors import SegmentLayoutError, SegmentOptionError, SegmentPathError
from pyrmq.segments.store import SegmentStore, open_stores
from tests.segments.making import Made

SIZE = 4096


def log_folder(folder: Path, *bases: int, size: int = SIZE) -> Path:
    folder.mkdir(parents=True)
    for base in bases:
        (folder / f"{base:020d}").write_bytes(bytes(size))
    return folder


def one(path: Path | str) -> SegmentStore:
    (store,) = open_stores([str(path)])
    return store


def test_a_store_folder(made: Made) -> None:
    store = one(made.root)
    assert store.name == "broker-a"
    assert store.first == 0
    assert store.last == sum(length for _, length, _ in store.files)
    assert [base for base, _, _ in store.files] == sorted(base for base, _, _ in store.files)
    assert store.queues == str(made.root / "consumequeue")
    assert store.index == str(made.root / "index")
    assert store.filesystem is None
    assert store.topics() == {"A", "B", "C", "SCHEDULE_TOPIC_XXXX"}
    assert pickle.loads(pickle.dumps(store)) == store


def test_patterns(tmp_path: Path) -> None:
    """The rules are those of the engine, whose tests have all of them."""
    for name in ("store-b", "store-a", "[s]"):
        log_folder(tmp_path / name / "commitlog", 0)
    stores = open_stores([str(tmp_path / "store-*")], ["x", "y"])
    roots = [str(tmp_path / "store-a"), str(tmp_path / "store-b")]
    assert [(store.root, store.name) for store in stores] == list(zip(roots, "xy", strict=True))
    assert one(tmp_path / "[s]").root == str(tmp_path / "[s]")
    with pytest.raises(SegmentPathError, match=r"none-\*: nothing matches this pattern"):
        open_stores([str(tmp_path / "none-*")])


def test_stores_inside_of_one_are_named(made: Made, caplog: pytest.LogCaptureFixture) -> None:
    """`pyrmq server --brokers 2`: each store is a path of its own; who gave one only must know."""
    inner = made.root / "brokers" / "broker-b"
    (inner / "commitlog").mkdir(parents=True)
    one(made.root)
    assert caplog.messages == []  # nothing is in it
    (inner / "commitlog" / f"{0:020d}").write_bytes(bytes(SIZE))
    assert len(open_stores([str(made.root), str(inner)])) == 2
    assert not any("further brokers" in text for text in caplog.messages)
    for _ in range(2):
        one(made.root)
    (said,) = [text for text in caplog.messages if "further brokers" in text]
    assert f"{made.root}/brokers" in said


def test_a_commit_log_folder_takes_the_name_of_the_store(made: Made) -> None:
    store = one(made.root / "commitlog")
    assert store.name == "broker-a"
    assert store.queues is None
    assert store.topics() is None
    assert store.files == one(made.root).files


def test_single_files_of_a_folder_are_one_broker(tmp_path: Path) -> None:
    a = log_folder(tmp_path / "a" / "commitlog", 0, SIZE, 2 * SIZE)
    b = log_folder(tmp_path / "b", 0)
    paths = [str(a / f"{n:020d}") for n in (SIZE, 0)]
    stores = open_stores([paths[0], str(b / f"{0:020d}"), paths[1], paths[1]])
    assert [(s.name, [f[0] for f in s.files]) for s in stores] == [("a", [0, SIZE]), ("b", [0])]
    assert stores[0].relisted() == stores[0]


def test_relative_paths_hold_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log_folder(tmp_path / "s" / "commitlog", 0)
    monkeypatch.chdir(tmp_path)
    for path in ("s", "s/", "./s/commitlog", f"s/commitlog/{0:020d}"):
        store = one(path)
        assert store.name == "s"
        assert Path(store.files[0][2]).is_absolute()


def test_file_uri(tmp_path: Path) -> None:
    log_folder(tmp_path / "a b" / "commitlog", 0)
    store = one((tmp_path / "a b").as_uri())
    assert store.name == "a b"
    assert store.filesystem is None
    with pytest.raises(SegmentPathError, match="three slashes"):
        one("file://folder/x")


@pytest.mark.parametrize("name", ["a#b", "a?b", "a%b", "a b"])
def test_signs_in_a_file_uri(tmp_path: Path, name: str) -> None:
    log_folder(tmp_path / name, 0)
    log_folder(tmp_path / "a", SIZE)
    for start in ("file://", "file://localhost", "file:"):
        assert one(start + str(tmp_path / name).replace("%", "%25")).first == 0


def test_no_uri(tmp_path: Path) -> None:
    with pytest.raises(SegmentPathError, match=r"s3://\[x is no URI"):
        one("s3://[x")


def test_foreign_files_are_left_out_with_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = log_folder(tmp_path / "s" / "commitlog", 0)
    for name in ("notes.txt", "00000000000000004096.bak", "4096", "9" * 20, "٣" * 20):
        (folder / name).write_bytes(b"x")
    (folder / f"{SIZE:020d}").mkdir()
    with caplog.at_level(logging.WARNING, "pyrmq.segments"):
        store = one(tmp_path / "s")
        store.relisted()
    assert [f[0] for f in store.files] == [0]
    assert len(caplog.records) == 1
    assert "6 foreign files are left out: " in caplog.text
    assert "00000000000000004096.bak" in caplog.text


def test_a_file_that_has_no_size_yet_is_no_segment(tmp_path: Path) -> None:
    folder = log_folder(tmp_path / "s" / "commitlog", 0)
    (folder / f"{SIZE:020d}").touch()
    assert len(one(tmp_path / "s").files) == 1


def test_holes(tmp_path: Path) -> None:
    folder = log_folder(tmp_path / "s", 0, SIZE, 4 * SIZE)
    (folder / f"{SIZE:020d}").write_bytes(bytes(100))
    assert one(folder).holes() == [(SIZE + 100, 4 * SIZE)]


def test_files_that_overlap_are_no_log(tmp_path: Path) -> None:
    with pytest.raises(SegmentPathError, match=r"begins before its end.*not the segments of one"):
        one(log_folder(tmp_path / "s", 0, 100))


def test_no_such_path_says_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "store1").mkdir()
    with pytest.raises(SegmentPathError, match=r"store: there is no such.*there is store1"):
        one(tmp_path / "store")
    with pytest.raises(SegmentPathError, match="is not there either"):
        one(tmp_path / "x" / "y")
    with pytest.raises(SegmentPathError, match="no path is given"):
        open_stores([])
    with pytest.raises(SegmentPathError, match="no such file"):
        one("a\0b")


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    odd = os.fsdecode(b"odd-\xff")
    try:
        log_folder(tmp_path / odd, 0)
    except OSError:
        pytest.skip("the file system takes no such name")
    with pytest.raises(SegmentPathError, match=r"there is odd-\\udcff") as caught:
        one(tmp_path / "not there")
    str(caught.value).encode()
    for names in ([], ["b"]):
        with pytest.raises(SegmentPathError, match="the name is not UTF-8") as other:
            open_stores([str(tmp_path / odd)], names)
        str(other.value).encode()
    log_folder(tmp_path / "named", 0)
    with pytest.raises(SegmentOptionError, match=r"broker_names: .* is not UTF-8"):
        open_stores([str(tmp_path / "named")], [odd])


def test_nothing_in_it(tmp_path: Path) -> None:
    (tmp_path / "s" / "commitlog").mkdir(parents=True)
    with pytest.raises(SegmentPathError, match="no segments in it"):
        one(tmp_path / "s")
    with pytest.raises(SegmentPathError, match=r"no segments in it .*s is a store"):
        one(tmp_path)
    (tmp_path / "t" / "consumequeue").mkdir(parents=True)
    with pytest.raises(SegmentPathError, match="storePathCommitLog lies elsewhere"):
        one(tmp_path / "t")


def test_a_file_of_another_name(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"x")
    with pytest.raises(SegmentPathError, match=r"not named as a segment is.*20 digits"):
        one(tmp_path / "log")


def test_queues_are_no_log(made: Made) -> None:
    with pytest.raises(SegmentPathError, match="files of queues, not of the log"):
        one(made.root / "consumequeue" / "A" / "0")


def test_dledger_is_refused(tmp_path: Path) -> None:
    log_folder(tmp_path / "s" / "commitlog", 0)
    data = log_folder(tmp_path / "s" / "dledger-n0" / "data", 0)
    for path in (tmp_path / "s", data):
        with pytest.raises(SegmentLayoutError, match=r"dledger-n0.*DLedger.*through its broker"):
            one(path)
    entry = (1).to_bytes(4, "big") + bytes(20) + SIZE.to_bytes(8, "big")
    moved = log_folder(tmp_path / "moved", SIZE)
    (moved / f"{SIZE:020d}").write_bytes(entry.ljust(SIZE, b"\0"))
    with pytest.raises(SegmentLayoutError, match="DLedger"):
        one(moved)


def test_queues_in_rocksdb_leave_the_log(tmp_path: Path) -> None:
    log_folder(tmp_path / "s" / "commitlog", 0)
    (tmp_path / "s" / "consumequeue").mkdir()
    (tmp_path / "s" / "consumequeue" / "CURRENT").touch()
    store = one(tmp_path / "s")
    assert store.queues is None
    assert "RocksDB" in store.no_queues
    assert store.topics() is None


def test_configured_topics_count_as_known(tmp_path: Path) -> None:
    log_folder(tmp_path / "s" / "commitlog", 0)
    (tmp_path / "s" / "config").mkdir()
    topics = tmp_path / "s" / "config" / "topics.json"
    topics.write_text(json.dumps({"topicConfigTable": {"T": {}}}))
    assert one(tmp_path / "s").topics() == {"T"}
    for broken in ("{", "[]", '{"topicConfigTable": 3}', "[" * 100_000):
        topics.write_text(broken)
        assert one(tmp_path / "s").topics() is None


def test_unreadable_file_is_named() -> None:
    with tempfile.TemporaryDirectory() as open_to_all:
        os.chmod(open_to_all, 0o755)
        folder = log_folder(Path(open_to_all) / "s", 0, SIZE)
        bad = folder / f"{SIZE:020d}"
        bad.chmod(0)
        assert f"{bad} cannot be read (its permissions forbid it)" in as_nobody(lambda: one(folder))


def as_nobody(work: Callable[[], object]) -> str:
    """The error of the work, done by a user who may not read everything."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        text = "no error"
        try:
            if os.geteuid() == 0:
                os.setresuid(65534, 65534, 65534)
            work()
        except Exception as error:
            text = str(error)
        finally:
            os.write(into, text.encode())
            os._exit(0)
    os.close(into)
    with os.fdopen(out) as told:
        text = told.read()
    os.waitpid(child, 0)
    return text


def test_broker_names(tmp_path: Path) -> None:
    for name in ("a", "b"):
        log_folder(tmp_path / name / "store" / "commitlog", 0)
    paths = [str(tmp_path / name / "store") for name in ("a", "b")]
    with pytest.raises(SegmentOptionError, match=r"both be broker 'store'.*give broker_names"):
        open_stores(paths)
    assert [s.name for s in open_stores(paths, ["x", " y "])] == ["x", "y"]
    with pytest.raises(SegmentOptionError, match="1 names for 2 stores"):
        open_stores(paths, ["x"])
    with pytest.raises(SegmentOptionError, match="empty name"):
        open_stores(paths, ["x", ""])
    with pytest.raises(SegmentOptionError, match="would both be broker 'x'"):
        open_stores(paths, ["x", "x"])


def test_relisted_sees_what_comes_and_goes(tmp_path: Path) -> None:
    folder = log_folder(tmp_path / "s" / "commitlog", 0, SIZE)
    store = one(tmp_path / "s")
    (folder / f"{0:020d}").unlink()
    (folder / f"{2 * SIZE:020d}").write_bytes(bytes(SIZE))
    assert [f[0] for f in store.relisted().files] == [SIZE, 2 * SIZE]
    shutil.rmtree(folder)
    with pytest.raises(SegmentPathError):
        store.relisted()
