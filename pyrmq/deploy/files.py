"""Copies the deployment files of a kind to a folder."""

from __future__ import annotations

import os
from pathlib import Path

from pyrmq.errors import ConfigError

SOURCE = Path(__file__).parent
KINDS = ("systemd", "docker", "compose", "kubernetes", "monitoring")
MODE = 0o644


def files_of(kind: str) -> dict[str, bytes]:
    """The files of a kind by name. ConfigError for another one."""
    if kind not in KINDS:
        raise ConfigError(f"there are no files for {kind[:64]!r}: {', '.join(KINDS)}")
    return {path.name: path.read_bytes() for path in sorted((SOURCE / kind).iterdir())}


def write(kind: str, folder: Path, *, force: bool = False) -> dict[Path, bool]:
    """Writes the files of a kind to a folder, which is made if it is missing. Returns them, each
    with whether it was written: one that is the same already is left alone. ConfigError, before
    anything is written, if a file is there with other content, unless `force`. OSError."""
    wanted = {folder / name: content for name, content in files_of(kind).items()}
    changed = {path: _differs(path, content) for path, content in wanted.items()}
    there = [path for path, differs in changed.items() if differs and os.path.lexists(path)]
    if there and not force:
        raise ConfigError(
            f"{there[0]} is there already and differs: nothing is written; take another folder, "
            "or --force"
        )
    folder.mkdir(parents=True, exist_ok=True)
    for path, differs in changed.items():
        if differs:
            _write(path, wanted[path])
    return changed


def _differs(path: Path, content: bytes) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(content) + 1) != content
    except (FileNotFoundError, NotADirectoryError):
        return True


def _write(path: Path, content: bytes) -> None:
    """In one step: a reader sees the old content or the new. A link is replaced, not followed."""
    made = path.with_name(f".{path.name}.{os.getpid()}")
    fd = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, MODE)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(content)
        os.replace(made, path)
    except BaseException:
        made.unlink(missing_ok=True)
        raise
