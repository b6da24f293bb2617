"""Configuration files: written whole, with the one before as `.bak`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from pyrmq.broker.tables import config_file
from pyrmq.broker.tables.persistent import PersistentTable
from pyrmq.errors import ConfigError

OLD, NEW, NEWER = ({"v": n, "offsetTable": {"T@G": {0: n}}} for n in (1, 2, 3))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config" / "x.json"


def bak(file: Path) -> Path:
    return file.with_name("x.json.bak")


def test_nothing_there(file: Path) -> None:
    assert config_file.load(file) == {}


def test_round_trip_keeps_integer_keys(file: Path) -> None:
    config_file.save(file, OLD)
    assert config_file.load(file) == OLD
    assert "\t\t0:1" in file.read_text()
    assert not bak(file).exists()


def test_the_one_before_is_kept(file: Path) -> None:
    for value in (OLD, NEW, NEWER):
        config_file.save(file, value)
    assert config_file.load(file) == NEWER
    file.unlink()
    assert config_file.load(file) == NEW
    assert sorted(p.name for p in file.parent.iterdir()) == ["x.json.bak"]


@pytest.mark.parametrize("damage", [b"", b"{", b"\0" * 500, b"[]", b'{"v":1} x', b"\xff\xfe{}"])
def test_a_damaged_file_gives_way_to_the_one_before(file: Path, damage: bytes) -> None:
    config_file.save(file, OLD)
    config_file.save(file, NEW)
    file.write_bytes(damage)
    assert config_file.load(file) == OLD
    bak(file).write_bytes(damage)
    with pytest.raises(ConfigError, match=r"x\.json"):  # never start without what it held
        config_file.load(file)


def test_an_empty_object_is_no_damage(file: Path) -> None:
    config_file.save(file, OLD)
    config_file.save(file, {})
    assert config_file.load(file) == {}


def test_a_file_too_large_is_not_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config_file.save(file, OLD)
    config_file.save(file, {"v": "x" * 1000})
    monkeypatch.setattr(config_file, "MAX_SIZE", 500)
    assert config_file.load(file) == OLD


def test_a_file_that_cannot_be_read(file: Path) -> None:
    config_file.save(file, OLD)
    config_file.save(file, NEW)
    file.unlink()
    file.mkdir()
    with pytest.raises(ConfigError, match="directory"):
        config_file.load(file)


class _Killed(BaseException):
    """The process ends here."""


def kill_at(monkeypatch: pytest.MonkeyPatch, step: int) -> list[str]:
    """Ends the process before its step-th system call that changes names or flushes."""
    steps: list[str] = []

    def wrap(name: str) -> None:
        real = getattr(os, name)

        def call(*args: Any) -> Any:
            steps.append(name)
            if len(steps) == step:
                raise _Killed
            return real(*args)

        monkeypatch.setattr(os, name, call)

    for name in ("fsync", "replace"):
        wrap(name)
    return steps


@pytest.mark.parametrize("step", range(1, 6))
def test_a_crash_leaves_the_old_or_the_new(
    file: Path, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    config_file.save(file, OLD)
    config_file.save(file, NEW)
    with monkeypatch.context() as patch:
        steps = kill_at(patch, step)
        try:
            config_file.save(file, NEWER)
        except _Killed:
            assert config_file.load(file) in (NEW, NEWER)
        else:
            assert config_file.load(file) == NEWER
    assert steps[:2] == ["fsync", "replace"][:step], "content is durable before it gets its name"
    config_file.save(file, OLD)
    assert config_file.load(file) == OLD


@pytest.mark.parametrize("step", range(1, 6))
def test_a_crash_after_damage_keeps_what_could_be_read(
    file: Path, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The only file that can be read is the `.bak`: saving may not replace it by the damaged one
    before the new one has its name."""
    config_file.save(file, OLD)
    config_file.save(file, NEW)
    file.write_bytes(b"damaged")
    assert config_file.load(file) == OLD
    with monkeypatch.context() as patch:
        kill_at(patch, step)
        try:
            config_file.save(file, NEWER)
        except _Killed:
            assert config_file.load(file) in (OLD, NEWER)


class Table(PersistentTable):
    value: int = 0

    def to_json(self) -> dict[str, Any]:
        return {"value": self.value}


async def test_a_table_is_written_when_it_changed(file: Path) -> None:
    table = Table(file)
    await table.save_if_changed()
    assert config_file.load(file) == {}
    table.value = 1
    table.changed()
    await table.save_if_changed()
    assert config_file.load(file) == {"value": 1}
    table.value = 2
    await table.save_if_changed()
    assert config_file.load(file) == {"value": 1}


async def test_a_table_that_could_not_be_written_stays_changed(file: Path) -> None:
    table = Table(file)
    table.changed()
    file.parent.write_text("a file where the folder should be")
    with pytest.raises(OSError):
        await table.save_if_changed()
    file.parent.unlink()
    await table.save_if_changed()
    assert config_file.load(file) == {"value": 0}
