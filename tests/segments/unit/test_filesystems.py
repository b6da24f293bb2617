"""Stores that are not local files: what pyarrow and fsspec open."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pytest

import pyrmq
from pyrmq.errors import MissingPackageError, SegmentOptionError, SegmentPathError
from pyrmq.segments import filesystem
from pyrmq.segments.plan import plan
from pyrmq.segments.read_options import ReadOptions
from pyrmq.segments.selection import Selection
from pyrmq.segments.store import open_stores
from pyrmq.segments.stream import StreamPlanner
from tests.segments.making import ROW, Made, as_rows, read

HOW = ReadOptions(columns=tuple(ROW))


@pytest.fixture
def far(made: Made, monkeypatch: pytest.MonkeyPatch) -> str:
    """The store on a file system of pyarrow's that is not the local one."""
    system = pafs.SubTreeFileSystem(str(made.root.parent), pafs.LocalFileSystem())

    class FarFileSystem:
        @staticmethod
        def from_uri(uri: str) -> tuple[Any, str]:
            scheme, _, path = uri.partition("://")
            if scheme != "far":
                raise pa.ArrowInvalid(f"Unrecognized filesystem type in URI: {uri}")
            return system, path

    monkeypatch.setattr(pafs, "FileSystem", FarFileSystem)
    return "far://broker-a"


def test_a_store_on_a_pyarrow_file_system(made: Made, far: str) -> None:
    (store,) = open_stores([far])
    assert store.name == "broker-a"
    assert store.queues is None
    assert store.topics() == {"A", "B", "C", "SCHEDULE_TOPIC_XXXX"}
    splits = plan([store], Selection(), HOW, split_bytes=30_000)
    assert read(pickle.loads(pickle.dumps(splits))) == made.of("A", "B", "C")
    assert as_rows(pa.table(pyrmq.scan(far, topic="C", columns=ROW))) == made.of("C")


def test_commit_log_folder_and_single_files(made: Made, far: str) -> None:
    assert open_stores([far + "/commitlog/"])[0].files == open_stores([far])[0].files
    (store,) = open_stores([f"{far}/commitlog/{n:020d}" for n in (65536, 0)])
    assert [base for base, _, _ in store.files] == [0, 65536]
    assert store.relisted() == store


def test_patterns_from_afar(made: Made, far: str) -> None:
    (store,) = open_stores([f"{far}/commitlog/0*"])
    assert store.files == open_stores([f"{far}/commitlog"])[0].files
    splits = plan([store], Selection(), HOW)
    assert read(pickle.loads(pickle.dumps(splits))) == made.of("A", "B", "C")
    with pytest.raises(SegmentPathError, match=r"far://broker-a/x\*: nothing matches.*commitlog"):
        open_stores([f"{far}/x*"])
    with pytest.raises(SegmentPathError, match=r"far://broker-\*: .*host or bucket as it is"):
        open_stores(["far://broker-*"])


def test_a_stream_from_afar(made: Made, far: str) -> None:
    stream = StreamPlanner([far], Selection(topics=("A",)), HOW)
    at, rows = stream.initial(), []
    while (end := stream.latest(at, max_offsets=500)) != at:
        rows += read(stream.splits(at, end))
        at = end
    assert rows == made.of("A")


def test_offsets_from_afar_are_not_looked_for(
    made: Made, far: str, caplog: pytest.LogCaptureFixture
) -> None:
    offsets = {"A": {"broker-a": {0: 10_000}}}
    chosen = Selection(topics=("A",), queues=(0,), starting_offsets=offsets)
    with caplog.at_level("WARNING", "pyrmq.segments"):
        assert read(plan(open_stores([far]), chosen, HOW)) == []
    assert "its queues are not local files, and a remote log is not walked" in caplog.text


def test_errors_from_afar(far: str) -> None:
    with pytest.raises(SegmentPathError, match=r"far://broker-x: there is no such.*broker-a"):
        open_stores(["far://broker-x"])
    with pytest.raises(SegmentPathError, match="no segments in it"):
        open_stores([far + "/index"])
    with pytest.raises(SegmentOptionError, match="only be viewed in local files"):
        pyrmq.scan(far, views=True)


def test_fsspec_with_its_options(made: Made) -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    for path in sorted((made.root / "commitlog").iterdir()):
        memory.pipe_file(f"/bucket/broker-m/commitlog/{path.name}", path.read_bytes())
    try:
        (store,) = open_stores(["memory://bucket/{broker-?,none}"])
        assert store.root == "memory://bucket/broker-m"
        assert read(plan([store], Selection(), HOW)) == made.of("A", "B", "C")
        (store,) = open_stores(["memory://bucket/broker-m"])
        assert store.name == "broker-m"
        splits = plan([store], Selection(), HOW)
        assert read(pickle.loads(pickle.dumps(splits))) == made.of("A", "B", "C")
        (store,) = open_stores(["memory://bucket/broker-m"], (), {"skip_instance_cache": True})
        assert read(plan([store], Selection(), HOW)) == made.of("A", "B", "C")
    finally:
        memory.rm("/bucket", recursive=True)


def test_unknown_scheme() -> None:
    pytest.importorskip("fsspec")
    with pytest.raises(SegmentPathError, match="neither pyarrow nor fsspec opens it"):
        open_stores(["gopher://x/y"])


def test_without_fsspec(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(MissingPackageError, match=r"gopher://x/y needs fsspec.*install"):
        open_stores(["gopher://x/y"])


def test_a_file_that_cannot_be_read(made: Made, far: str, monkeypatch: pytest.MonkeyPatch) -> None:
    splits = plan(open_stores([far]), Selection(), HOW)

    class Broken:
        def read_at(self, nbytes: int, offset: int) -> bytes:
            raise OSError("the disk is on fire")

    monkeypatch.setattr(filesystem.FileSystem, "open", lambda self, path: Broken())
    with pytest.raises(OSError, match="on fire") as caught:
        read(splits)
    assert "broker-a" in "".join(caught.value.__notes__)


def test_the_description_is_small(made: Made, far: str) -> None:
    (store,) = open_stores([far])
    assert store.filesystem is not None
    store.filesystem.kind("broker-a")
    assert len(pickle.dumps(store.filesystem)) < 300


def test_percent_signs_in_local_paths(made: Made, tmp_path: Path) -> None:
    root = tmp_path / "50%25 full"
    root.symlink_to(made.root)
    assert as_rows(pyrmq.scan(root, columns=ROW).to_arrow()) == made.of("A", "B", "C")
    assert as_rows(pyrmq.scan(root.as_uri(), columns=ROW).to_arrow()) == made.of("A", "B", "C")
