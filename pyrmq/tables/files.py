"""The files of a table: which ones snapshots need, and which lie in its folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pyrmq.tables.errors import TableError

DATA = "write.data.path"
METADATA = "write.metadata.path"
"""Properties of Iceberg tables: folders other than those in the table's location."""


@dataclass
class Reached:
    """What snapshots lead to. Paths are without scheme, as `path_of` gives them."""

    lists: set[str] = field(default_factory=set)
    manifests: set[str] = field(default_factory=set)
    data: set[str] = field(default_factory=set)
    locations: dict[str, str] = field(default_factory=dict)
    """Of what an expired snapshot leads to: the locations by path, to delete them."""


def path_of(location: str) -> str:
    """A file's path without its scheme: engines write file:/a, file:///a and /a for one file."""
    from pyiceberg.io.pyarrow import PyArrowFileIO

    path: str = PyArrowFileIO.parse_location(location)[2]
    return path


def reached(io: Any, snapshots: Iterable[Any], *, without: Reached | None = None) -> Reached:
    """All files that these snapshots need: manifest lists, manifests, data and delete files.

    Manifests that `without` has are not read again. A manifest of `snapshots` that is gone is
    passed over: an earlier call has deleted it."""
    found = Reached()

    def add(paths: set[str], location: str) -> None:
        path = path_of(location)
        paths.add(path)
        if without is not None:
            found.locations[path] = location

    seen = without.manifests if without is not None else set()
    for snapshot in snapshots:
        add(found.lists, snapshot.manifest_list)
        try:
            manifests = snapshot.manifests(io)
        except FileNotFoundError:
            if without is None:
                raise
            continue
        for manifest in manifests:
            path = path_of(manifest.manifest_path)
            if path in seen or path in found.manifests:
                continue
            add(found.manifests, manifest.manifest_path)
            try:
                entries = manifest.fetch_manifest_entry(io, discard_deleted=without is None)
            except FileNotFoundError:
                if without is None:
                    raise
                continue
            for entry in entries:
                add(found.data, entry.data_file.file_path)
    return found


def folders(table: Any) -> list[str]:
    """Folders whose files are the table's own. What lies elsewhere (files of an archive that were
    added to the table) belongs to somebody else."""
    own = [table.location()]
    own += [table.properties[name] for name in (DATA, METADATA) if table.properties.get(name)]
    return [path_of(one).rstrip("/") + "/" for one in own]


def is_own(path: str, own: Iterable[str]) -> bool:
    return ".." not in path.split("/") and any(path.startswith(one) for one in own)


def listed(table: Any) -> Iterator[tuple[str, int, float]]:
    """Location, bytes and time (s since 1970) of each file in the folder of data files."""
    from pyarrow.fs import FileSelector, FileType
    from pyiceberg.io.pyarrow import PyArrowFileIO

    if not isinstance(table.io, PyArrowFileIO):
        raise TableError(
            f"the files of {table.location()} cannot be listed with {type(table.io).__name__}",
            "use pyiceberg's PyArrowFileIO: remove py-io-impl from the catalog's properties",
        )
    where = table.properties.get(DATA) or f"{table.location().rstrip('/')}/data"
    scheme, netloc, path = table.io.parse_location(where, table.io.properties)
    files = table.io.fs_by_scheme(scheme, netloc)
    for one in files.get_file_info(FileSelector(path, allow_not_found=True, recursive=True)):
        if one.type == FileType.File:
            # An object store without times: now, so that nothing is taken for old.
            when = one.mtime.timestamp() if one.mtime is not None else float("inf")
            at = one.path if scheme.startswith("hdfs") else one.path.removeprefix(f"{netloc}/")
            yield f"{scheme}://{netloc}/{at.lstrip('/')}", one.size, when
