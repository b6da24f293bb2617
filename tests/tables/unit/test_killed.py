"""A writer that is killed, or whose disk is full, at each step: each message is in the table once,
and the files of the killed run go away."""

from __future__ import annotations

import errno
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pyrmq.tables import names
from pyrmq.tables.write import Run
from tests.tables.killer import ROOT, STEPS, run_killed
from tests.tables.making import Log, World, check_same, write

COMMITTED = ("after the commit", "files deleted")


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_killed(world: World, log: Log, step: str) -> None:
    write(world, log)
    log.put(30)
    run_killed("tests.tables.killer", world.folder, step)
    left = world.files() - world.referenced()
    assert bool(left) == (step not in (*COMMITTED, STEPS[0]))
    added = write(world, log)
    assert added.rows == (0 if step in COMMITTED else 30)
    check_same(world, log)
    log.put(3)
    write(world, log)
    check_same(world, log)
    assert world.files() == world.referenced()


def test_files_of_a_process_that_lives_are_not_deleted(world: World, log: Log) -> None:
    """A run that shares the table may be about to commit them."""
    write(world, log)
    mine = next(iter((world.folder / "catalog").rglob("*.parquet")))
    other = mine.with_name(mine.name.replace("-00000.", "-00009."))
    other.write_bytes(b"being written")
    foreign = mine.with_name("pyrmq-" + "0" * 12 + mine.name[18:])
    foreign.write_bytes(b"of another machine")
    log.put(3)
    write(world, log)
    assert other.exists()
    assert foreign.exists()


class Disk:
    """Fails writes of table files from the n-th on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
        from pyrmq.tables import durable

        self.left, self.failed = after, False
        monkeypatch.setattr(durable, "open", self._open, raising=False)

    def _open(self, path: str, mode: str) -> Any:
        disk = self

        class File(io.FileIO):
            def write(self, data: Any) -> int:
                disk.left -= 1
                if disk.left < 0:
                    disk.failed = True
                    raise OSError(errno.ENOSPC, "No space left on device")
                return super().write(data)

        return File(path, mode)


NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount"]


@pytest.mark.slow
@pytest.mark.parametrize("kib", [20, 36, 40, 44, 48])
def test_a_small_file_system(tmp_path: Path, kib: int) -> None:
    """The whole catalog is on a tmpfs that is full at some step; then it has room."""
    try:
        subprocess.run([*NAMESPACE, "mount", "-t", "tmpfs", "none", str(tmp_path)], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no tmpfs of our own here: {error}")
    command = [*NAMESPACE, sys.executable, "-m", "tests.tables.full_disk", str(tmp_path), str(kib)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("failed:") or kib > 40
    assert "o space left" in done.stdout or "disk is full" in done.stdout or kib > 40


@pytest.mark.slow
def test_a_disk_that_is_full_at_each_write(
    world: World, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(world, log)
    for after in range(0, 400, 11):
        log.put(3)
        with monkeypatch.context() as patched:
            disk = Disk(patched, after)
            try:
                write(world, log)
            except OSError as error:
                assert error.errno == errno.ENOSPC  # noqa: PT017
                assert world.files() == world.referenced()
            else:
                assert not disk.failed
                break
        write(world, log)
        check_same(world, log)
    else:
        pytest.fail("more writes than expected")
    assert after > 11
    check_same(world, log)


def test_runs_that_are_killed_again_and_again_do_not_fill_the_disk(
    world: World, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of them comes to its commit."""
    write(world, log)
    mine = next(iter((world.folder / "catalog").rglob("*.parquet")))
    owner, _, rest = mine.name.removeprefix("pyrmq-").partition("-")
    killed = mine.with_name(f"pyrmq-{owner}-1.1-{rest.partition('-')[2]}")
    killed.write_bytes(b"of a process that has ended")
    log.put(3)

    def kill(*args: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Run, "_read", kill)
        with pytest.raises(KeyboardInterrupt):
            write(world, log)
    assert not killed.exists()
    write(world, log)
    check_same(world, log)


def test_machines_of_one_image_are_not_taken_for_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Host name, machine id and process ids are the same: the other one's process still writes."""
    boot, machine = tmp_path / "boot_id", tmp_path / "machine-id"
    machine.write_text("of the image")
    boot.write_text("one")
    monkeypatch.setattr(names, "IDS", (str(boot), str(machine)))
    owner = names.owner.__wrapped__
    first = owner()
    assert owner() == first
    boot.write_text("other")
    assert owner() != first
