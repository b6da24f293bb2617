"""What pyiceberg has and does not promise, in one place: checked with 0.12, the only release that
pyproject.toml allows. Look here first when that changes."""

from __future__ import annotations

from typing import Any


def as_requested(wanted: Any, own: Any, batch: Any) -> Any:
    """The rows of a file with the columns of a table. `own`: Iceberg's schema of the file."""
    from pyiceberg.io.pyarrow import _to_requested_schema

    return _to_requested_schema(wanted, own, batch)


def replacing(table: Any, summary: dict[str, str]) -> Any:
    """A producer of a snapshot with the operation `replace`: it takes `delete_data_file` and
    `append_data_file`."""
    from pyiceberg.table.snapshots import Operation, Summary
    from pyiceberg.table.update.snapshot import _OverwriteFiles

    class Replace(_OverwriteFiles):
        def _summary(self, snapshot_properties: dict[str, str] = summary) -> Any:
            # pyiceberg counts totals for `overwrite`, which has the same parts.
            found = super()._summary(snapshot_properties)
            return Summary(operation=Operation.REPLACE, **found.additional_properties)

    return Replace(
        operation=Operation.OVERWRITE,
        transaction=table.transaction(),
        io=table.io,
        snapshot_properties=summary,
    )


def changes(producer: Any) -> Any:
    """Writes the manifests of a producer; returns the updates and requirements of its commit."""
    return producer._commit()


def clean(producer: Any) -> None:
    """Deletes the manifests that a producer wrote, and that are in no snapshot."""
    producer._clean_all_uncommitted()


def staging(catalog: Any) -> Any:
    """How a catalog makes the metadata of a commit, called with the table as it is, its identifier,
    requirements and updates; None for one whose server makes it."""
    return getattr(catalog, "_update_and_stage_table", None)


def stage_with(catalog: Any, staged: Any) -> None:
    """Puts another function in the place of `staging`."""
    catalog._update_and_stage_table = staged
