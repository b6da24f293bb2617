"""From the options of a query to what `pyrmq.segments` wants: paths, a selection, how to build."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyrmq.errors import ConfigError
from pyrmq.segments.read_options import ReadOptions
from pyrmq.segments.selection import Selection
from spark_ext.option_names import option_names
from spark_ext.schema import column_names, form_of

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from pyrmq.segments.stream import StreamPlanner
    from spark_ext.options import Options


def paths(options: Options) -> tuple[str, ...]:
    """What `load` was called with."""
    found: tuple[str, ...] = options["paths"] or (options["path"],)
    return found


def broker_names(options: Options) -> tuple[str, ...]:
    """Empty: each store is named by its folder."""
    return options["brokerName"] or ()


def topics(options: Options) -> tuple[str, ...]:
    """Topics named by `subscribe`, or by `topic` (one); empty when neither is given."""
    if options["topic"] is not None:
        return (options["topic"],)
    return options["subscribe"] or ()


@option_names()
def selection(options: Options) -> Selection:
    """Raises SegmentOptionError for what contradicts itself. Times are ms, ends exclusive."""
    given = options.of_all()
    return Selection(
        topics=topics(options),
        pattern=given["subscribePattern"],
        assign=given["assign"],
        include_system_topics=given["includeSystemTopics"],
        tags=given["subExpression"],
        key=given["key"],
        starting_offsets=given["startingOffsets"],
        ending_offsets=given["endingOffsets"],
        starting_times=given["startingOffsetsByTimestamp"],
        ending_times=given["endingOffsetsByTimestamp"],
        start_time=given["startingTimestamp"],
        end_time=given["endingTimestamp"],
        timestamp_strategy=given["startingOffsetsByTimestampStrategy"],
    )


@option_names()
def read_options(options: Options, schema: StructType) -> ReadOptions:
    """How batches are built; the columns are those of the schema, in its order."""
    given = options.of_all()
    forms: dict[str, Any] = {"utf8": "utf8", "json": {"json": given["bodySchema"]}}
    body = forms.get(given["body"])
    return _build(given, column_names(schema), form_of(options), body)


def build(options: Options, columns: tuple[str, ...], properties: str) -> ReadOptions:
    """The same of these columns, with `properties` in this form, for jobs: they take bodies as they
    are. Raises ConfigError for another form of them."""
    given = options.of_all()
    if given["body"] != "binary":
        raise ConfigError(f"option body={given['body']} is not for jobs: leave it out")
    if given.get("history") or given.get("historyCatalog"):
        raise ConfigError("option history is not for jobs: leave it out")
    return _build(given, columns, properties, None)


def _build(
    given: Mapping[str, Any],
    columns: tuple[str, ...],
    properties: str,
    body: str | dict[str, Any] | None,
) -> ReadOptions:
    return ReadOptions(
        columns=columns,
        properties=properties,
        decompress=given["decompress"],
        verify_crc=given["verifyCrc"],
        on_corruption=given["onCorruption"],
        batch_rows=given["batchRows"],
        batch_bytes=given["batchBytes"],
        body=body,
    )


def planner(options: Options, selected: Selection, how: ReadOptions) -> StreamPlanner:
    """The positions and tasks of a stream. Lists the store."""
    from pyrmq.segments.stream import StreamPlanner

    return StreamPlanner(
        paths(options),
        selected,
        how,
        broker_names=broker_names(options),
        storage_options=options["storageOptions"],
        split_bytes=options["splitBytes"],
        min_partitions=options["minPartitions"],
        mode=options["plan"],
        fail_on_data_loss=options["failOnDataLoss"],
    )
