"""A topic as a Delta table: where it is, its columns, and how far it goes.

As with Iceberg, one commit adds files and says the ends of the queues: in its commitInfo.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyrmq.errors import MissingPackageError
from pyrmq.escape import escape
from pyrmq.tables.catalog import identifier
from pyrmq.tables.ends import ENDS, TOPIC, Ends
from pyrmq.tables.errors import CatalogAwayError, CatalogError, TableSchemaError

EXTRA = "pip install 'pyrmq-broker[delta]'"
KEPT_LOG = "interval 3650 days"
"""For how long Delta keeps the entries of its log. Ours say how far the table goes."""
PARTITIONS = {"day": "day", "queue": "queueId", "broker": "brokerName"}
"""Word of `--partition`: the column. `day` is a column that only Delta tables have."""
RESTORE = "RESTORE"
"""An operation in Delta's log: the files of an earlier version, as a new one."""
_STEPS = (1, 16, 256, None)
"""Entries of the log that are read, the newest first, until one has the ends."""
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Place:
    """The folder of a Delta table: `root` and below it the parts of its name."""

    root: str
    name: str
    options: Mapping[str, str] = field(default_factory=dict)
    """Of delta-rs for this storage. Never shown."""

    @property
    def uri(self) -> str:
        return "/".join([self.root.rstrip("/") or "/", *identifier(self.name)])

    @property
    def shown(self) -> str:
        return escape(self.uri)

    def local(self) -> str | None:
        """The folder, if it is on this machine."""
        if "://" not in self.uri:
            return os.path.abspath(self.uri)
        return self.uri[len("file://") :] if self.uri.startswith("file:///") else None

    def find(self) -> Any:
        """The DeltaTable as it is now; None if there is none."""
        api = _api()
        with self.errors("cannot be read"):
            if not api.DeltaTable.is_deltatable(self.uri, dict(self.options)):
                return None
            return api.DeltaTable(self.uri, storage_options=dict(self.options))

    def create(self, topic: str, columns: Any, words: Sequence[str]) -> Any:
        """The table, which is created if it does not exist. `columns`: pyarrow.Schema of its
        messages. TableSchemaError if it exists and does not fit."""
        import pyarrow

        api = _api()
        if "day" in words:
            columns = columns.append(pyarrow.field("day", pyarrow.date32()))
        found = self.find()
        if found is None:
            local = self.local()
            if local is not None:
                os.makedirs(local, exist_ok=True)
            with self.errors("cannot be created"):
                found = api.DeltaTable.create(
                    self.uri,
                    schema=api.Schema.from_arrow(columns),
                    mode="ignore",
                    partition_by=[PARTITIONS[word] for word in words],
                    configuration={"delta.logRetentionDuration": KEPT_LOG},
                    storage_options=dict(self.options) or None,
                    commit_properties=properties({TOPIC: topic}),
                )
            found = self.find() or found
        return found

    @contextmanager
    def errors(self, doing: str) -> Iterator[None]:
        """Turns what delta-rs raises into CatalogError, or CatalogAwayError for storage that does
        not answer."""
        try:
            yield
        except Exception as error:
            refused = isinstance(error, _api().exceptions.DeltaError)
            if not refused and not (isinstance(error, OSError) and error.errno is None):
                raise
            lines = _COLOUR.sub("", str(error)).strip().splitlines() or [type(error).__name__]
            text = f"Delta table {self.shown} {doing}: {escape(lines[0])[:400]}"
            if refused:
                raise CatalogError(text, "check the path, the options and the rights") from None
            raise CatalogAwayError(text, "try again when the storage can be reached") from None


def _api() -> Any:
    try:
        return importlib.import_module("deltalake")
    except ImportError as error:
        raise MissingPackageError(f"a Delta table needs deltalake: {error}", EXTRA) from error


def properties(said: Mapping[str, str], transactions: Sequence[Any] = ()) -> Any:
    """deltalake's CommitProperties for a commit that is tried once."""
    return _api().CommitProperties(
        custom_metadata=dict(said), max_commit_retries=0, app_transactions=list(transactions)
    )


def transaction(topic: str, number: int) -> Any:
    """Delta's `txn` action."""
    return _api().Transaction(app_id(topic), number)


def words_of(table: Any) -> tuple[str, ...]:
    """How an existing table is partitioned, in words of `--partition`. TableSchemaError for
    columns that are not of ours."""
    by_column = {column: word for word, column in PARTITIONS.items()}
    columns = table.metadata().partition_columns
    unknown = [name for name in columns if name not in by_column]
    if unknown:
        raise TableSchemaError(
            f"Delta table {escape(table.table_uri)} is partitioned by {', '.join(unknown)}",
            "write another table: this job knows day, queueId and brokerName",
        )
    return tuple(by_column[name] for name in columns)


def check(table: Any, topic: str, columns: Any) -> None:
    """TableSchemaError unless a table is of this topic and has these columns; it may have more."""
    said = topic_of(table)
    where = f"Delta table {escape(table.table_uri)}"
    if said is None:
        raise TableSchemaError(f"{where} was not made by pyrmq", "choose another name")
    if said != topic:
        raise TableSchemaError(
            f"{where} is of topic {escape(said)}, not of {escape(topic)}", "a table has one topic"
        )
    there = {one.name: one.type for one in table.schema().fields}
    wanted = {one.name: one.type for one in _api().Schema.from_arrow(columns).fields}
    other = [name for name, kind in wanted.items() if there.get(name) != kind]
    if other:
        raise TableSchemaError(
            f"{where} has other columns: {', '.join(other)} differ",
            "write the columns that it has (--columns), or another table",
        )


def history(table: Any) -> Iterator[Mapping[str, Any]]:
    """The entries of the log, the newest first. Few are read if the first ones will do."""
    seen = 0
    for step in _STEPS:
        found = table.history(step)
        yield from found[seen:]
        if step is None or len(found) < step:
            return
        seen = len(found)


def topic_of(table: Any) -> str | None:
    """The topic of a table; None if no commit of ours is in its log."""
    return next((str(one[TOPIC]) for one in history(table) if TOPIC in one), None)


def ends_of(table: Any) -> Ends | None:
    """What a table has; None if it was never written to. A table that was restored has the ends of
    the version that it was restored to. TableSchemaError if its log no longer has the entry that
    says it."""
    newest: int | None = None
    for one in history(table):
        version = int(one["version"])
        if newest is not None and version > newest:
            continue  # a RESTORE has taken it back
        if ENDS in one:
            return Ends.from_json(str(one[ENDS]))
        if one.get("operation") == RESTORE:
            newest = _restored(table, one)
        if newest is not None and version == 0:
            return None
    topic = topic_of(table)
    if topic is None or table.transaction_version(app_id(topic)) is not None:
        raise TableSchemaError(
            f"the log of Delta table {escape(table.table_uri)} no longer says how far it goes",
            "its old entries were deleted: write another table, and do not shorten "
            "delta.logRetentionDuration of it",
        )
    return None


def _restored(table: Any, entry: Mapping[str, Any]) -> int:
    """The version to which a RESTORE went. TableSchemaError if its entry names a time instead."""
    said = entry.get("operationParameters")
    text = str(said.get("version")) if isinstance(said, Mapping) else ""
    if text.isascii() and text.isdigit() and int(text) < int(entry["version"]):
        return int(text)
    raise TableSchemaError(
        f"Delta table {escape(table.table_uri)} was restored to a time, and the log does not say "
        "to which version",
        "restore it once more, to that version (RESTORE TABLE … TO VERSION AS OF)",
    )


def app_id(topic: str) -> str:
    """The application of Delta's `txn` actions."""
    return f"pyrmq:{topic}"
