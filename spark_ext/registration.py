"""A data source class that travels by value.

Spark plans a query in a Python of its own, the one that PYSPARK_PYTHON names, and sends the
registered class there. If that Python has no wheel, a class that is referred to by its module
would fail with "No module named 'spark_ext'"; this one brings along what says what to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource

from pyrmq import __version__
from spark_ext.worker import make_check

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


def source_by_value(format_name: str) -> type[DataSource]:
    """A class for `spark.dataSource.register`, of this format name."""
    check = make_check()
    version = __version__

    class RocketMQ(DataSource):
        @classmethod
        def name(cls) -> str:
            return format_name

        def _real(self) -> Any:
            check(version)
            from spark_ext.source import RocketMQDataSource

            return RocketMQDataSource(self.options)

        def schema(self) -> StructType | str:
            found: StructType | str = self._real().schema()
            return found

        def reader(self, schema: StructType) -> DataSourceReader:
            found: DataSourceReader = self._real().reader(schema)
            return found

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:
            found: DataSourceStreamReader = self._real().streamReader(schema)
            return found

        def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
            found: DataSourceWriter = self._real().writer(schema, overwrite)
            return found

        def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
            found: DataSourceStreamWriter = self._real().streamWriter(schema, overwrite)
            return found

    return RocketMQ
