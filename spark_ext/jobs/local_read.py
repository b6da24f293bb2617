"""Reading for the engine `local`: the options of the source, as a scan in this process."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyrmq.segments.scan import Scan
from pyrmq.segments.store import open_stores
from spark_ext import selecting
from spark_ext.jobs.errors import JobError
from spark_ext.option import Query
from spark_ext.option_names import option_names
from spark_ext.options import Options
from spark_ext.splits import of_batch

if TYPE_CHECKING:
    from pyarrow import RecordBatchReader


_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
"""A file system in front of a path: s3a://bucket, hdfs:/folder."""
_SIGNS = "*?[{"
"""What makes a path a pattern. [glob.rs of pyrmq-scan]"""


def is_local(path: str) -> bool:
    """Whether this is a path of this machine, or a file: URI."""
    found = _URI.match(path)
    return found is None or found[1].lower() == "file"


def local_path(path: str) -> str:
    """A path of this machine without `file:` in front."""
    if _URI.match(path) is None:
        return path
    return re.sub("^file:(//(?=/))?", "", path, flags=re.IGNORECASE)


def store_roots(paths: Sequence[str], broker_names: Sequence[str] = ()) -> list[str]:
    """The paths, or what is there of them if one is a pattern. SegmentError if nothing is."""
    if not any(sign in path for path in paths for sign in _SIGNS):
        return list(paths)
    return [store.root for store in open_stores(paths, broker_names)]


def refusal(paths: Sequence[str], name_server: str | None) -> str | None:
    """Why the engine `local` cannot read this; None if it can."""
    if name_server:
        return "reads files, not brokers: name store folders"
    far = next((path for path in paths if not is_local(path)), None)
    return None if far is None else f"reads files of this machine, not {far}"


@option_names()
def scan(columns: Sequence[str], options: Mapping[str, str], paths: Sequence[str]) -> Scan:
    """What Spark would read with these options. JobError if it is not on this machine."""
    named = {"path": paths[0]} if len(paths) == 1 else {}
    given = Options({**options, **named}, Query.BATCH if paths else Query.BROKER_BATCH)
    refused = refusal(paths, None if paths else "there is one")
    if refused:
        raise JobError(f"the engine local {refused}, or take --engine spark")
    how = selecting.build(given, tuple(columns), given["properties"])
    return Scan(of_batch(given, selecting.selection(given), how), how)


def reader(found: Scan, raised: list[Exception]) -> RecordBatchReader:
    """The batches, one at a time; an error on the way is in `raised` as well, as a reader hands on
    only its text."""
    from pyarrow import RecordBatchReader

    return RecordBatchReader.from_batches(found.schema, _batches(found, raised))


def _batches(found: Scan, raised: list[Exception]) -> Iterator[Any]:
    try:
        with option_names():
            yield from found.to_reader()
    except Exception as e:
        raised.append(e)
        raise
