"""What a query is told once that could be faster: a line in the log of the driver.

The logger is `spark_ext.column_hint`, level WARNING. Spark configures no logging in the Python
process that plans, so lines go to its standard error, which Spark passes on to the driver's.
"""

from __future__ import annotations

import logging

from spark_ext.schema import DEFAULT

_log = logging.getLogger(__name__)
_told = False


def all_columns() -> None:
    """The query names no columns, so all default ones are built. Said once in a process."""
    global _told
    if _told:
        return
    _told = True
    _log.warning(
        "rocketmq: this query names no columns, so all %d default ones are built, whatever it "
        "needs of them: Spark does not tell. If it needs fewer, name them: "
        '.option("columns", "topic,queueId"), or .schema(...).',
        len(DEFAULT),
    )
