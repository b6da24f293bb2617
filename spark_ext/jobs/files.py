"""Small files where Spark keeps its data: any file system that Hadoop knows, through the JVM."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import is_instance_of  # type: ignore[import-untyped]

from spark_ext.jobs.errors import JobError
from spark_ext.jobs.folder import MAX_FILE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Folder:
    """A folder by path or URI; names are relative to it."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._path = jvm.org.apache.hadoop.fs.Path
        base = self._path(root)
        self._fs: Any = base.getFileSystem(spark._jsc.hadoopConfiguration())
        if is_instance_of(spark._sc._gateway, self._fs, "org.apache.hadoop.fs.ChecksumFileSystem"):
            # Without checksums in hidden files: a file may be restored from a copy.
            self._fs = self._fs.getRawFileSystem()
        self._root: Any = self._fs.makeQualified(base)
        self.uri: str = self._root.toString()

    def local_path(self) -> str | None:
        """Where it is on this machine; None if it is elsewhere."""
        uri = self._root.toUri()
        return str(uri.getPath()) if uri.getScheme() in (None, "file") else None

    def at(self, name: str) -> Any:
        return self._path(self._root, name) if name else self._root

    def path_of(self, name: str) -> str:
        """The whole URI of a name, as Spark's readers and writers take it."""
        return str(self.at(name).toString())

    def exists(self, name: str) -> bool:
        return bool(self._fs.exists(self.at(name)))

    def names(self, name: str = "") -> list[str]:
        """What lies directly in a folder, in order; nothing if there is none."""
        if not self.exists(name):
            return []
        return sorted(
            str(entry.getPath().getName()) for entry in self._fs.listStatus(self.at(name))
        )

    def sizes(self, name: str) -> Iterator[tuple[str, int]]:
        """Every file below a folder: its name relative to that folder, unescaped, and bytes."""
        if not self.exists(name):
            return
        base = str(self.at(name).toUri().getPath())
        found = self._fs.listFiles(self.at(name), True)
        while found.hasNext():
            entry = found.next()
            path = str(entry.getPath().toUri().getPath())
            yield path.removeprefix(base).lstrip("/"), int(entry.getLen())

    def delete(self, name: str) -> None:
        """With everything below it; nothing if it does not exist."""
        if self.exists(name) and not self._fs.delete(self.at(name), True):
            raise JobError(f"{self.path_of(name)} cannot be deleted")

    def read(self, name: str) -> bytes:
        size = int(self._fs.getFileStatus(self.at(name)).getLen())
        if size > MAX_FILE:
            raise JobError(f"{self.path_of(name)} has {size} bytes: that cannot be ours")
        stream = self._fs.open(self.at(name))
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def create(self, name: str, content: bytes) -> None:
        """A new file, whole or not at all: written beside its place and renamed."""
        folder, _, last = name.rpartition("/")
        fresh = f"{folder}/_{last}.tmp" if folder else f"_{last}.tmp"
        if self.exists(name):
            raise JobError(f"{self.path_of(name)} exists: is another run at work here?")
        stream = self._fs.create(self.at(fresh), True)
        try:
            stream.write(bytearray(content))
            stream.hsync()
        finally:
            stream.close()
        if not self._fs.rename(self.at(fresh), self.at(name)):
            raise JobError(f"{self.path_of(fresh)} cannot be renamed to {last}")
