"""What a Python data source does that knows no Arrow: a tuple for each row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from pyrmq.model.record import decode_record


class TupleSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "tuples"

    def schema(self) -> str:
        return (
            "topic string, queueId int, queueOffset bigint, commitLogOffset bigint, tags string, "
            "keys string, body binary"
        )

    def reader(self, schema: Any) -> DataSourceReader:
        return TupleReader(self.options["path"])


class Part(InputPartition):
    def __init__(self, path: str, start: int, end: int) -> None:
        self.path, self.start, self.end = path, start, end


class TupleReader(DataSourceReader):
    """Two parts of one segment; where the second one starts is found by the reader's own walk."""

    def __init__(self, store: str) -> None:
        self.log = next((Path(store) / "commitlog").iterdir())

    def partitions(self) -> list[InputPartition]:
        from pyrmq.engine import LogRange, segment_advance, segment_end

        files = [(0, self.log.stat().st_size, str(self.log))]
        end, _ = segment_end(files)
        middle, _ = segment_advance(LogRange(files, 0, end), max_bytes=end // 2)
        return [Part(str(self.log), 0, middle), Part(str(self.log), middle, end)]

    def read(self, partition: Any) -> Iterator[tuple[Any, ...]]:
        with open(partition.path, "rb") as file:
            file.seek(partition.start)
            data = memoryview(file.read(partition.end - partition.start))
        at = 0
        while at < len(data):
            size = int.from_bytes(data[at : at + 4], "big")
            m = decode_record(data[at : at + size])
            place = m.commit_log_offset
            keys = m.properties.get("KEYS")
            yield m.topic, m.queue_id, m.queue_offset, place, m.tags, keys, m.body
            at += size
