"""Writes a table to a tmpfs of a few pages, and again when it is larger: in namespaces of its own,
`unshare -rm python -m tests.tables.full_disk FOLDER KIB`. Prints how the first write ended."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from pyrmq.errors import PyrmqError
from tests.tables.making import World, check_same, write


def mount(folder: Path, options: str) -> None:
    command = ["mount", "-t", "tmpfs", "-o", options, "none", str(folder)]
    subprocess.run(command, check=True)


def main(folder: str, kib: str) -> None:
    world = World(Path(folder))
    log = world.log()
    log.put(90)
    catalog = world.folder / "catalog"
    catalog.mkdir()
    mount(catalog, f"size={kib}k")
    try:
        write(world, log)
    except (OSError, PyrmqError) as error:
        print("failed:", str(error)[:200])
    else:
        print("written")
    mount(catalog, "remount,size=64m")
    log.put(9)
    write(world, log)
    check_same(world, log)
    assert world.files() == world.referenced()


if __name__ == "__main__":
    main(*sys.argv[1:])
