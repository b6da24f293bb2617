"""Bodies in Protobuf: plain, or with Confluent's header."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyrmq.tables.bodies import frames, kinds, rows
from pyrmq.tables.bodies.misfit import Misfit, brief
from pyrmq.tables.bodies.protobuf_schema import Room, read
from pyrmq.tables.bodies.schema_file import SchemaFile
from pyrmq.tables.errors import need

if TYPE_CHECKING:
    import pyarrow


class ProtobufForm:
    """Decodes the bodies of one topic. Messages may have at most 100 others within each other, as
    in all implementations of Protobuf."""

    def __init__(self, schema: SchemaFile, message: str, header: str) -> None:
        self._unknown = need("google.protobuf.unknown_fields", "bodies in Protobuf").UnknownFieldSet
        found = read(schema.content, message, schema.name)
        self.record = found.record
        self._make = found.make
        self._get = found.get
        self._kind = kinds.arrow_type(found.record)
        self._confluent = header == frames.CONFLUENT

    def parts(self, bodies: pyarrow.Array) -> Iterator[rows.Part]:
        """The columns of the bodies, in order."""
        return rows.parts(bodies, self._kind, self._row)

    def _row(self, body: bytes) -> tuple[dict[str, Any], int]:
        if self._confluent:
            _, body = frames.confluent(body)
            body = frames.confluent_message(body)
        room = Room()
        try:
            message = self._make.FromString(body)
            found = self._get(message, room)
        except Misfit:
            raise
        except MemoryError:
            raise
        except (
            Exception
        ) as error:  # of bytes that are anything: a DecodeError, or a text that is none
            raise Misfit((), f"the body is not of the message: {brief(error)}") from None
        if not message.IsInitialized():
            missing = ", ".join(message.FindInitializationErrors()[:5])
            raise Misfit((), f"required fields are missing: {missing}")
        if not message.ListFields() and len(self._unknown(message)):
            raise Misfit((), "the body has no field that the message knows")
        assert isinstance(found, dict)
        return found, room.taken()
