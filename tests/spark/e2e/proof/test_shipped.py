"""Closed segments that were copied away: read by a URI, and from an object store."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.fs
import pytest

from .material import Material
from .object_store import ObjectStore
from .planned import read
from .rows import Row, assert_same


@pytest.fixture
def shipped(material: Material, tmp_path: Path) -> tuple[Path, list[Row]]:
    """What `rsync` of all but the last segment leaves, and the rows in it."""
    target = tmp_path / "bucket" / material.broker / "commitlog"
    target.mkdir(parents=True)
    open_ones = [path for path in material.files if int(path.name) >= _last(material)]
    for path in material.files:
        if path not in open_ones:
            shutil.copy(path, target)
    rows = [row for row in material.rows if row["commitLogOffset"] < int(open_ones[0].name)]
    assert rows
    return target, rows


def _last(material: Material) -> int:
    """Where the segment begins that is still written."""
    size = material.files[0].stat().st_size
    return material.rows[-1]["commitLogOffset"] // size * size  # type: ignore[no-any-return]


@pytest.mark.parametrize("form", ["path", "uri", "store uri", "files"])
def test_copied_files(shipped: tuple[Path, list[Row]], material: Material, form: str):
    target, rows = shipped
    paths = {
        "path": [str(target)],
        "uri": [target.as_uri()],
        "store uri": [target.parent.as_uri()],
        "files": [path.as_uri() for path in sorted(target.iterdir())],
    }[form]
    assert_same(read(paths, names=[material.broker]), rows, form)
    assert_same(read(paths, split_bytes=5000), rows, f"{form}, the name from the folder")


@pytest.mark.parametrize("split_bytes", [3000, 1 << 28])
def test_an_object_store(shipped: tuple[Path, list[Row]], material: Material, split_bytes: int):
    target, rows = shipped
    with ObjectStore(target.parent.parent) as store:
        for path in (material.broker, f"{material.broker}/commitlog"):
            found = read([store.uri(path)], names=[material.broker], split_bytes=split_bytes)
            assert_same(found, rows, path)
        assert store.asked


def test_a_time_range_reads_some_objects_only(material: Material, tmp_path: Path):
    """Files wholly outside are not fetched; one of margin is."""
    shutil.copytree(material.log, tmp_path / "far" / "commitlog")
    bases = [int(path.name) for path in material.files]
    middle = [r for r in material.rows if bases[5] <= r["commitLogOffset"] < bases[6]]
    start, end = middle[0]["storeTimestamp"], middle[-1]["storeTimestamp"]
    expected = [r for r in material.rows if start <= r["storeTimestamp"] < end]
    with ObjectStore(tmp_path) as store:
        found = read([store.uri("far")], names=[material.broker], start_time=start, end_time=end)
        assert_same(found, expected, "time range")
        whole = {key for key in store.asked if store.asked.count(key) > 3}
    assert len(whole) < len(bases)


def test_fsspec(shipped: tuple[Path, list[Row]], material: Material):
    """Whatever fsspec knows, by its URI."""
    fsspec = pytest.importorskip("fsspec")
    target, rows = shipped
    memory = fsspec.filesystem("memory")
    memory.put(str(target), "/shipped/commitlog", recursive=True)
    try:
        found = read(["memory://shipped/commitlog"], names=[material.broker], split_bytes=9000)
        assert_same(found, rows, "memory://")
    finally:
        memory.rm("/shipped", recursive=True)


def test_the_object_store_is_one(tmp_path: Path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").write_bytes(b"0123456789")
    with ObjectStore(tmp_path) as store:
        system, path = pyarrow.fs.FileSystem.from_uri(store.uri("a"))
        (info,) = system.get_file_info(pyarrow.fs.FileSelector(path))
        assert (info.base_name, info.size) == ("b", 10)
        with system.open_input_file(info.path) as file:
            assert file.read_at(3, 4) == b"456"
