"""The reader of a stream that cannot be read as asked.

The process that PySpark has for a stream (up to 4.3) answers an error of `DataSource.streamReader`
with an UnboundLocalError of its own, behind which the real one stands. An error of the methods of a
reader comes through as it is, so that is where it is raised.
"""

from __future__ import annotations

from typing import Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader


class FailedStreamReader(DataSourceStreamReader):
    def __init__(self, error: Exception) -> None:
        self._error = error

    def _raise(self) -> NoReturn:
        raise self._error from None

    def initialOffset(self) -> Any:
        self._raise()

    def latestOffset(self, *start_and_limit: Any) -> Any:  # with parameters since PySpark 4.2
        self._raise()

    def getDefaultReadLimit(self) -> Any:
        self._raise()

    def reportLatestOffset(self) -> Any:
        self._raise()

    def partitions(self, start: Any, end: Any) -> Any:
        self._raise()

    def read(self, partition: Any) -> Any:
        self._raise()

    def commit(self, end: Any) -> None:
        self._raise()
