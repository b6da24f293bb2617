"""Files that `pyrmq bench` writes: an error comes before the load, not behind it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import click

NEW_FILE = click.Path(dir_okay=False, writable=True, path_type=Path)


def check_new_files(files: Mapping[str, Path | None]) -> None:
    """By option. BadParameter if one cannot be written, or two are the same."""
    seen: dict[Path, str] = {}
    for option, path in files.items():
        if path is None:
            continue
        other = seen.setdefault(path.absolute(), option)
        if other != option:
            raise click.BadParameter(f"{_shown(path)} is also that of {other}", param_hint=option)
        _try(path, option)


def _try(path: Path, option: str) -> None:
    there = path.exists()
    if there and not path.is_file():
        return  # a pipe, or /dev/stdout: opening it may wait for its reader
    try:
        with path.open("ab"):
            pass
        if not there:
            path.unlink()
    except OSError as e:
        why = e.strerror or str(e)
        if not path.absolute().parent.is_dir():
            why = f"there is no folder {_shown(path.parent)}"
        raise click.BadParameter(
            f"{_shown(path)} cannot be written: {why}", param_hint=option
        ) from None


@contextmanager
def written(option: str, path: Path) -> Iterator[None]:
    """A disk that is full when the load is over is an error with the option's name."""
    try:
        yield
    except OSError as e:
        why = e.strerror or str(e)
        raise click.ClickException(f"{option} {_shown(path)} was not written: {why}") from None


def _shown(path: Path) -> str:
    from pyrmq.escape import escape

    return escape(str(path))
