"""Where a job reads from, and how it asks: columns by schema, messages by the source's options."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pyrmq.errors import ConfigError
from pyrmq.escape import escape
from spark_ext.jobs import report
from spark_ext.jobs.engine import FORMAT, Table, Where, engine_of, schema_of
from spark_ext.jobs.errors import JobError
from spark_ext.option_table import SELECTING
from spark_ext.options import check_cases

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


MAX_WHERE = 80
"""Longest place that `Source.text` names; the middle of a longer one is left out."""


def exactly(topics: Iterable[str]) -> str:
    """A pattern for topics that need not exist: naming one that does not is an error."""
    return "|".join(re.escape(topic) for topic in topics)


@dataclass(frozen=True)
class Source:
    """Stores (`paths`: store roots, commit-log folders or segment files) or brokers
    (`name_server`). `since` and `until` are store times in ms, `until` excluded; `options` are
    further options of the source and win over what the job sets."""

    paths: tuple[str, ...] = ()
    name_server: str | None = None
    broker_names: tuple[str, ...] = ()
    since: int | None = None
    until: int | None = None
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    connection: Callable[[], Mapping[str, str]] = field(default=dict, repr=False, compare=False)
    """Options for what a command connects with, also if it reads stores."""

    def __post_init__(self) -> None:
        if bool(self.paths) == bool(self.name_server):
            raise JobError("name the stores to read, or a name server, and not both")
        try:
            check_cases(self.options)
        except ConfigError as error:
            raise JobError(str(error)) from None

    @property
    def text(self) -> str:
        """Where it reads, and what part of it, for people."""
        if self.name_server:
            where = f"brokers of {self.name_server}"
        else:
            more = f" and {len(self.paths) - 1} more" if len(self.paths) > 1 else ""
            where = f"{self.paths[0]}{more}"
        if len(where) > MAX_WHERE:
            where = f"{where[: MAX_WHERE // 2 - 1]}..{where[1 - MAX_WHERE // 2 :]}"
        since, until = (
            None if ms is None else report.moment(datetime.fromtimestamp(ms / 1000, UTC))
            for ms in (self.since, self.until)
        )
        parts = [f"from {since}" if since else "", f"until {until}" if until else ""]
        stored = " ".join(part for part in parts if part) or "all times"
        return f"{escape(where)}: {stored}"

    @property
    def roots(self) -> list[str]:
        """The places of the stores one by one: a path may be a pattern."""
        from spark_ext.jobs.local_read import store_roots

        return store_roots(self.paths, self.broker_names)

    def need_all(self, job: str, *, times: bool = False) -> None:
        """JobError if options or (unless `times` are allowed) times leave messages out: for a job
        that would compute wrong numbers from the others."""
        known = {name.lower() for name in SELECTING}
        found = [f"-o {name}" for name in self.options if name.lower() in known]
        bounds = {"--since": self.since, "--until": self.until}
        found += [n for n, time in bounds.items() if time is not None and not times]
        if found:
            raise JobError(f"{job} needs all messages of its topics: leave out {', '.join(found)}")

    def load(
        self,
        where: Where,
        columns: Iterable[str],
        *,
        topics: Iterable[str] = (),
        pattern: str | None = None,
        system: bool = False,
    ) -> Table:
        """A table of these columns: of `topics` (each must exist), of those that match `pattern`,
        or of all user topics."""
        options = self._options(topics, pattern, system)
        if self.until is not None:
            options["endingTimestamp"] = str(self.until)
        columns = list(columns)
        if "properties" in columns:
            options["properties"] = "map"
        chosen = {**options, **self.options}
        return engine_of(where).load(columns, chosen, self.paths)

    def stream(
        self,
        spark: SparkSession,
        columns: Iterable[str],
        *,
        topics: Iterable[str] = (),
        pattern: str | None = None,
        system: bool = False,
    ) -> DataFrame:
        """The same as a stream, from the earliest message on unless `since` or the options say
        otherwise."""
        reader = spark.readStream.format(FORMAT).schema(schema_of(columns))
        options = self.stream_options(topics, pattern, system)
        return reader.options(**options).load(**self._where())

    def stream_options(
        self, topics: Iterable[str], pattern: str | None, system: bool
    ) -> dict[str, str]:
        """What `stream` asks the source for, but for the path."""
        if self.until is not None:
            raise JobError("a stream has no end: leave out the end time")
        options = self._options(topics, pattern, system)
        if self.since is None:
            options["startingOffsets"] = "earliest"
        return {**options, **self.options}

    def _where(self) -> dict[str, str]:
        return {"path": self.paths[0]} if len(self.paths) == 1 else {}

    def _options(self, topics: Iterable[str], pattern: str | None, system: bool) -> dict[str, str]:
        topics = list(topics)
        if topics and pattern is not None:
            raise JobError("topics by name or by pattern, not both")
        options: dict[str, str] = {}
        if len(self.paths) > 1:
            options["paths"] = json.dumps(list(self.paths))
        if self.name_server:
            options["nameServer"] = self.name_server
        if self.broker_names:
            options["brokerName"] = ",".join(self.broker_names)
        if topics:
            options["subscribe"] = ",".join(topics)
        if pattern is not None:
            options["subscribePattern"] = pattern
        if system:
            options["includeSystemTopics"] = "true"
        if self.since is not None:
            options["startingTimestamp"] = str(self.since)
        return options
