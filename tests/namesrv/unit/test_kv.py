"""KV configuration: its bounds, and changes that fail or are given up."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import trio

from pyrmq.errors import ConfigError, InvalidParameterError
from pyrmq.namesrv import kv as module
from pyrmq.namesrv import kv_file
from pyrmq.namesrv.kv import MAX_NAME, MAX_VALUE, KvConfig
from pyrmq.net.server.turns import Turns


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kvConfig.json"


@pytest.fixture
def kv(path: Path) -> KvConfig:
    return KvConfig(path, Turns())


def saved(path: Path) -> dict[str, dict[str, str]]:
    assert {p.name for p in path.parent.iterdir()} == {path.name}, "no other file is left"
    found: dict[str, dict[str, str]] = json.loads(path.read_bytes())["configTable"]
    assert KvConfig(path, Turns())._tables == found
    return found


def test_a_file_of_something_else_is_not_taken_for_an_empty_one(path: Path) -> None:
    path.write_text('{"configTabel":{"n":{"k":"v"}}}')
    with pytest.raises(ConfigError, match="it has no configTable"):
        kv_file.load(path)
    path.write_text("{}")
    assert kv_file.load(path) == ({}, [])


async def test_the_longest(kv: KvConfig, path: Path) -> None:
    name, value = "n" * MAX_NAME, "v" * MAX_VALUE
    assert await kv.change(name, name, value)
    assert not await kv.change(name, name, value), "nothing changes"
    assert saved(path) == {name: {name: value}}


@pytest.mark.parametrize("name", ["", "n" * (MAX_NAME + 1), "\n", "a\x00", "\ud800", "\u202e"])
def test_names(kv: KvConfig, name: str, path: Path) -> None:
    for namespace, key in ((name, "k"), ("n", name)):
        with pytest.raises(InvalidParameterError):
            kv.change(namespace, key, "v")
    assert not path.exists()


@pytest.mark.parametrize(
    "value", ["v" * (MAX_VALUE + 1), "\u00e4" * (MAX_VALUE // 2 + 1), "\ud800"]
)
def test_values(kv: KvConfig, value: str) -> None:
    with pytest.raises(InvalidParameterError, match="value"):
        kv.change("n", "k", value)


@pytest.mark.parametrize(
    ("bound", "limit"), [("MAX_NAMESPACES", 2), ("MAX_KEYS", 2), ("MAX_SIZE", 20)]
)
async def test_bounds(
    kv: KvConfig, path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, limit: int
) -> None:
    monkeypatch.setattr(module, bound, limit)
    await kv.change("a", "k", "v1")
    await kv.change("b", "k", "v2")
    with pytest.raises(InvalidParameterError):
        await kv.change("c", "k", "v3")
    assert saved(path) == {"a": {"k": "v1"}, "b": {"k": "v2"}}
    await kv.change("a", "k", None)
    await kv.change("c", "k", "v3")
    assert saved(path) == {"b": {"k": "v2"}, "c": {"k": "v3"}}
    assert kv.table("a") is None


async def test_a_namespace_fits_into_an_answer(
    kv: KvConfig, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is larger already can only shrink."""
    await kv.change("n", "a", "v" * 60)
    await kv.change("n", "b", "v" * 60)
    monkeypatch.setattr(module, "MAX_TABLE", 100)
    with pytest.raises(InvalidParameterError, match="namespace n would have"):
        await kv.change("n", "c", "v")
    await kv.change("m", "c", "v")
    await kv.change("n", "b", "w" * 60)
    await kv.change("n", "b", None)
    assert saved(path) == {"n": {"a": "v" * 60}, "m": {"c": "v"}}


async def test_a_write_that_fails(
    kv: KvConfig, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing has changed, neither here nor on the disk, and the next change is made."""
    await kv.change("n", "k", "old")

    def fails(fd: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fails)
        with pytest.raises(OSError, match=r"kvConfig\.json"):
            await kv.change("n", "k", "new")
    assert kv.get("n", "k") == "old"
    assert KvConfig(path, Turns()).get("n", "k") == "old"
    await kv.change("n", "k", "newer")
    assert saved(path) == {"n": {"k": "newer"}}


async def test_a_change_that_is_given_up_holds_up_nobody(kv: KvConfig, path: Path) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kv.change, "n", "a", "1")  # type: ignore[arg-type]
        with trio.CancelScope() as scope:
            scope.cancel()
            await kv.change("n", "b", "2")
        await kv.change("n", "c", "3")
    assert saved(path)["n"].items() >= {"a": "1", "c": "3"}.items()


@pytest.fixture
def full(path: Path) -> KvConfig:
    path.write_text(json.dumps({"configTable": {"n": {f"k{n}": f"v{n}" for n in range(2000)}}}))
    return KvConfig(path, Turns())


async def test_many_keys_are_encoded_as_one_is(full: KvConfig, path: Path) -> None:
    kv = full
    before = kv.table("n")
    assert before is not None
    assert json.loads(before) == {"table": {f"k{n}": f"v{n}" for n in range(2000)}}
    await kv.change("n", "k", 'a "quoted" \u00e4')
    assert saved(path)["n"]["k"] == 'a "quoted" \u00e4'
    assert json.loads(kv.table("n") or b"")["table"].keys() == saved(path)["n"].keys()


def test_a_file_that_is_too_large(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(b'{"configTable":{}}')
    monkeypatch.setattr(kv_file, "MAX_SIZE", 10)
    with pytest.raises(ConfigError, match="more than 10 bytes"):
        KvConfig(path, Turns())


def test_a_folder(path: Path) -> None:
    path.mkdir()
    with pytest.raises(ConfigError, match="Is a directory"):
        KvConfig(path, Turns())
