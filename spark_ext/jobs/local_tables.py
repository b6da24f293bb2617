"""Results of the engine `local` as folders of files, in the forms that Spark writes."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import uuid
from pathlib import Path
from typing import Any

from spark_ext.jobs.errors import JobError
from spark_ext.jobs.local_read import is_local, local_path

_HERE, _EXCHANGE = -100, 2
"""AT_FDCWD and RENAME_EXCHANGE of Linux."""
_UNABLE = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)


def exchange(one: Path, other: Path) -> None:
    """Swaps the names of two that exist. A reader of either name sees the one or the other; where
    the file system cannot do that, neither for a moment."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is not None:
        done = rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE)
        if done == 0:
            return
        number = ctypes.get_errno()
        if number not in _UNABLE:
            raise OSError(number, os.strerror(number), str(one), None, str(other))
    aside = one.with_name(f"{one.name}.old")
    other.rename(aside)
    try:
        one.rename(other)
    except OSError:
        aside.rename(other)
        raise
    aside.rename(one)


TYPES = {"timestamp": "timestamptz", "map<string,string>": "map(varchar, varchar)"}
"""Types of Spark's DDL that DuckDB calls otherwise."""
WAYS = {
    "parquet": "FORMAT parquet, COMPRESSION snappy",
    "csv": "FORMAT csv, HEADER",
    "json": "FORMAT json",
}
TIME = "'%Y-%m-%dT%H:%M:%S.%gZ'"
"""How Spark writes times in CSV and JSON."""


def local_folder(path: str) -> Path:
    """JobError for a place on another machine."""
    if not is_local(path):
        raise JobError(f"the engine local writes to this machine, not {path}: take --engine spark")
    return Path(local_path(path))


def write_table(table: Any, path: str, kind: str, mode: str) -> None:
    """One file in a folder, whole or not at all. Maps in CSV are JSON text, bytes are base64."""
    folder = local_folder(path)
    if mode == "error" and folder.exists():
        raise JobError(f"{path} exists: choose the mode append or overwrite")
    fresh = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}")
    fresh.mkdir(parents=True)
    name = f"part-00000-{uuid.uuid4()}.{kind}"
    quoted = str(fresh / name).replace("'", "''")
    try:
        columns = _columns(table, kind)
        statement = f"COPY (SELECT {columns} FROM {{t}}) TO '{_doubled(quoted)}' ({WAYS[kind]})"
        table.engine.execute(statement, t=table)
        if mode == "append" and folder.exists():
            os.replace(fresh / name, folder / name)
        else:
            take_place(fresh, folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def take_place(fresh: Path, folder: Path) -> None:
    """The new result is there, or the old one still is; that goes when the new one has its name."""
    if not folder.exists():
        fresh.rename(folder)
        return
    exchange(fresh, folder)
    if fresh.is_dir() and not fresh.is_symlink():
        shutil.rmtree(fresh, ignore_errors=True)
    else:
        fresh.unlink()


def read_table(engine: Any, path: str, kind: str, schema: str) -> Any:
    """What either engine wrote, with the columns of the schema (Spark's DDL, no maps)."""
    pattern = _doubled(str(local_folder(path) / f"part-*{kind}").replace("'", "''"))
    options = {
        "parquet": "union_by_name = true",
        "csv": "header = true, all_varchar = true",
        "json": "union_by_name = true",
    }
    fields = [field.split(" ", 1) for field in schema.split(", ")]
    chosen = [f"CAST(`{name}` AS {TYPES.get(word, word)}) AS `{name}`" for name, word in fields]
    # Spark's JSON has no field where the value is null.
    nothing = ", ".join(f"CAST(NULL AS varchar) AS `{name}`" for name, _ in fields)
    source = f"read_{kind}('{pattern}', {options[kind]})"
    if kind == "json":
        source = f"(SELECT {nothing} WHERE false UNION ALL BY NAME SELECT * FROM {source})"
    return engine.sql(f"SELECT {', '.join(chosen)} FROM {source}")


def _columns(table: Any, kind: str) -> str:
    if kind == "parquet":
        return "*"
    kinds = table.engine.connection.sql(f"SELECT * FROM {table.name}").types
    words = []
    for name, found in zip(table.columns, kinds, strict=True):
        word = str(found)
        if word.startswith("TIMESTAMP"):
            made = f"strftime(`{name}` AT TIME ZONE 'UTC', {TIME}) AS `{name}`"
        elif word == "BLOB":
            made = f"to_base64(`{name}`) AS `{name}`"
        elif word.startswith("MAP") and kind == "csv":
            made = f"CAST(to_json(`{name}`) AS varchar) AS `{name}`"
        else:
            made = f"`{name}`"
        words.append(made)
    return ", ".join(words)


def _doubled(text: str) -> str:
    """Braces in a path are none of a query's."""
    return text.replace("{", "{{").replace("}", "}}")
