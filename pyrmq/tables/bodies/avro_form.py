"""Bodies in Avro, decoded by fastavro: plain, with the single-object header, or with Confluent's.

The writer's schema is the one that the header names, of those that were given; the columns are
those of the last one. A plain body has no header, so the schema that was given must be the
writer's.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyrmq.tables.bodies import avro_walk, frames, kinds, rows
from pyrmq.tables.bodies.avro_schema import Avro, read
from pyrmq.tables.bodies.misfit import Misfit, brief
from pyrmq.tables.bodies.schema_file import SchemaFile
from pyrmq.tables.errors import TableError, need

if TYPE_CHECKING:
    import pyarrow

LARGE = 256 << 10
"""Bodies from this size on are walked first: fastavro makes objects of all that they hold."""


class AvroForm:
    """Decodes the bodies of one topic."""

    def __init__(self, schemas: Sequence[SchemaFile], header: str) -> None:
        self._decode = need("fastavro", "bodies in Avro").schemaless_reader
        found = [(one, read(one.text(), one.name)) for one in schemas]
        self._reader: Avro = found[-1][1]
        self.record, self._fix = self._reader.columns()
        self._kind = kinds.arrow_type(self.record)
        self._header = header
        self._by_id = {one.id: avro for one, avro in found if one.id is not None}
        self._by_mark = {avro.fingerprint: avro for _, avro in found}
        if header == frames.CONFLUENT and 0 < len(self._by_id) < len(found):
            raise TableError(
                "some --body-schema have an id and others have none", "write ID=FILE for each"
            )
        if header == frames.CONFLUENT and len(found) > 1 and not self._by_id:
            raise TableError(
                "there are several --body-schema without ids, and Confluent's header has an id",
                "write ID=FILE for each",
            )
        if header == frames.NONE and len(found) > 2:
            raise TableError(
                "bodies without a header do not say which schema they have",
                "give one --body-schema, or the writer's and then the one of the columns",
            )
        self._plain_writer = found[0][1]

    def parts(self, bodies: pyarrow.Array) -> Iterator[rows.Part]:
        """The columns of the bodies, in order."""
        return rows.parts(bodies, self._kind, self._row)

    def _row(self, body: bytes) -> tuple[dict[str, Any], int]:
        writer, payload = self._writer(body)
        if writer.recursive or len(payload) >= LARGE:
            avro_walk.check(payload, writer.parsed)
        stream = io.BytesIO(payload)
        reader = None if writer is self._reader else self._reader.parsed
        try:
            found = self._decode(stream, writer.parsed, reader)
        except EOFError:
            raise Misfit((), "the body ends before its last field") from None
        except MemoryError:
            raise
        except Exception as error:  # of bytes that are anything: fastavro raises many kinds
            raise Misfit((), f"the body is not of the schema: {brief(error)}") from None
        if stream.tell() != len(payload):
            left = len(payload) - stream.tell()
            raise Misfit((), f"the body goes on for {left} bytes behind its last field")
        if self._fix is not None:
            found = self._fix(found)
        assert isinstance(found, dict)
        return found, 0  # a value has a byte of the body: the bytes bound them

    def _writer(self, body: bytes) -> tuple[Avro, bytes]:
        if self._header == frames.CONFLUENT:
            number, payload = frames.confluent(body)
            if not self._by_id:
                return self._plain_writer, payload
            if number not in self._by_id:
                raise Misfit((), f"no --body-schema has the id {number}")
            return self._by_id[number], payload
        if self._header == frames.SINGLE_OBJECT:
            mark, payload = frames.single_object(body)
            if mark not in self._by_mark:
                raise Misfit((), f"no --body-schema has the fingerprint {mark[::-1].hex()}")
            return self._by_mark[mark], payload
        return self._plain_writer, body
