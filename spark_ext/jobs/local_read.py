"""Reading for the engine `local`: the options of the source, as a scan in this process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyrmq.segments.plan import plan
from pyrmq.segments.read_options import ReadOptions
from pyrmq.segments.scan import Scan
from pyrmq.segments.store import open_stores
from spark_ext import selecting
from spark_ext.jobs.errors import JobError
from spark_ext.option import Query
from spark_ext.option_names import option_names
from spark_ext.options import Options

if TYPE_CHECKING:
    from pyarrow import RecordBatchReader


def is_local(path: str) -> bool:
    """Whether this is a path of this machine, or a file: URI."""
    return "://" not in path or path.startswith("file://")


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
    how = ReadOptions(
        columns=tuple(columns),
        properties=given["properties"],
        decompress=given["decompress"],
        verify_crc=given["verifyCrc"],
        on_corruption=given["onCorruption"],
        batch_rows=given["batchRows"],
        batch_bytes=given["batchBytes"],
    )
    stores = open_stores(list(paths), selecting.broker_names(given), given["storageOptions"])
    splits = plan(
        stores,
        selecting.selection(given),
        how,
        split_bytes=given["splitBytes"],
        mode=given["plan"],
        fail_on_data_loss=given["failOnDataLoss"],
    )
    return Scan(splits, how)


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
