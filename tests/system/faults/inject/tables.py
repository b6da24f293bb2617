"""Configuration files while calls fail: the old content or the new one, never neither."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import trio

from pyrmq.broker.tables import config_file
from pyrmq.broker.tables.config_file import PersistentTable
from pyrmq.broker.tables.tables import save_all
from tests.system.faults.inject.lives import Trial

NAMES = ("topics.json", "subscriptionGroup.json", "consumerOffset.json")
VERSIONS = 3


class Table(PersistentTable):
    """Holds one number."""

    version = 0

    def to_json(self) -> dict[str, Any]:
        return {"version": self.version, "fill": "x" * 3000}


class Tables:
    """The tables of a broker, as far as saving them goes."""

    def __init__(self, folder: Path) -> None:
        self.every = [Table(folder / name) for name in NAMES]

    async def save(self) -> None:
        await save_all(self.every)


def write(trial: Trial) -> None:
    """Every table goes through its versions; each save is tried twice. What is found in the end is
    kept in `acked`."""
    broker = Tables(trial.root / "config")
    found = [0] * len(NAMES)

    async def life() -> None:
        nonlocal found
        for version in range(1, VERSIONS + 1):
            for table in broker.every:
                table.version = version
                table.changed()
            for _ in range(2):
                since = trial.calls.fired
                try:
                    await broker.save()
                except BaseException as error:
                    trial.seen.caught("save", error)
                    found = check_failed(trial, found, version, since)
                else:
                    found = check_saved(trial, version)

    trio.run(life)
    trial.seen.acked = found


def write_again(world_root: Path) -> list[str]:
    """Without a fault the next version is written; returns what is wrong."""
    broker = Tables(world_root / "config")
    for table in broker.every:
        table.version = VERSIONS + 1
        table.changed()
    trio.run(broker.save)
    found = versions(world_root / "config")
    return [] if found == [VERSIONS + 1] * len(NAMES) else [f"saved at last, found {found}"]


def versions(folder: Path) -> list[int]:
    """What a broker that starts now finds, per table; 0 for a table without a file."""
    return [config_file.load(folder / name).get("version", 0) for name in NAMES]


def check_saved(trial: Trial, version: int) -> list[int]:
    """A save that reported no error has written every table."""
    with trial.calls.spared(trial.root):
        found = versions(trial.root / "config")
    if found != [version] * len(NAMES):
        trial.seen.wrong.append(f"saved {version}, found {found}")
    return found


def check_failed(trial: Trial, before: list[int], version: int, since: int) -> list[int]:
    """A save that failed has left the old content or the new one of every table, and the new one
    of those whose files had no part in it."""
    with trial.calls.spared(trial.root):
        found = versions(trial.root / "config")
    hits = [Path(path).name for path in trial.calls.hits()[since:]]
    for name, old, new in zip(NAMES, before, found, strict=True):
        if new not in (old, version):
            trial.seen.wrong.append(f"{name}: had {old}, saving {version} failed, found {new}")
        files = any(hit.startswith(NAMES) for hit in hits)
        if files and not any(hit.startswith(name) for hit in hits) and new != version:
            trial.seen.wrong.append(f"{name} was not written as {hits[0]} could not be")
    return found
