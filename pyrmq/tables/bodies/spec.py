"""How the bodies of a topic become columns: what the options say, and what the table remembers."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyrmq.escape import escape
from pyrmq.tables.bodies import frames, schema_file
from pyrmq.tables.bodies.schema_file import SchemaFile
from pyrmq.tables.errors import TableError

BINARY, JSON, AVRO, PROTOBUF = FORMS = ("binary", "json", "avro", "protobuf")
STRUCT, FLAT = LAYOUTS = ("struct", "flat")
BODY = "pyrmq.body"
"""Property of a table: the JSON of its `BodySpec`."""
MAX_TEXT = 4 << 20
"""Characters of that JSON."""


@dataclass(frozen=True)
class BodySpec:
    """Form, schemas and layout of bodies. TableError for what does not go together."""

    form: str = BINARY
    schemas: tuple[SchemaFile, ...] = ()
    message: str = ""
    """With Protobuf: the full name of the message."""
    header: str = frames.NONE
    """What stands before the payload of each body."""
    layout: str = STRUCT
    """`struct`: the fields are in a column `value`. `flat`: each is a column of the table."""
    keep_body: bool = False
    """The column `body` has the bytes as well."""

    def __post_init__(self) -> None:
        for option, value, known in (
            ("--body", self.form, FORMS),
            ("--body-header", self.header, frames.HEADERS),
            ("--body-columns", self.layout, LAYOUTS),
        ):
            if value not in known:
                raise TableError(f"{option} {escape(value)}", f"expected {', '.join(known)}")
        if self.form == BINARY:
            self._refuse_options()
            return
        if not self.schemas:
            raise TableError(f"--body {self.form} needs a schema", "give --body-schema FILE")
        if len(self.schemas) > schema_file.MAX_FILES:
            raise TableError(f"there are more than {schema_file.MAX_FILES} --body-schema")
        if self.form != AVRO and len(self.schemas) > 1:
            raise TableError(
                f"--body {self.form} has one schema, and --body-schema is given "
                f"{len(self.schemas)} times",
                "give the newest: it has the fields of all",
            )
        if self.form != AVRO and self.schemas[0].id is not None:
            raise TableError("a schema with an id is for --body avro", "leave out ID=")
        if self.message and self.form != PROTOBUF:
            raise TableError("--message is for --body protobuf", "leave it out")
        if self.header == frames.SINGLE_OBJECT and self.form != AVRO:
            raise TableError(
                "--body-header single-object is for --body avro", "expected none or confluent"
            )
        if self.header != frames.CONFLUENT and any(one.id is not None for one in self.schemas):
            raise TableError("ids of schemas are for --body-header confluent", "leave out ID=")

    def _refuse_options(self) -> None:
        given = {
            "--body-schema": self.schemas,
            "--message": self.message,
            "--body-header": self.header != frames.NONE,
            "--body-columns": self.layout != STRUCT,
            "--keep-body": self.keep_body,
        }
        for option, is_given in given.items():
            if is_given:
                raise TableError(
                    f"{option} says how bodies are decoded, and --body binary decodes none",
                    "give --body json, avro or protobuf",
                )

    def to_json(self) -> str:
        """For the property of a table. TableError if the schemas are too large for one."""
        schemas = [
            {
                "name": one.name,
                "id": one.id,
                "zlib": base64.b64encode(zlib.compress(one.content)).decode(),
            }
            for one in self.schemas
        ]
        text = json.dumps(
            {
                "version": 1,
                "form": self.form,
                "schemas": schemas,
                "message": self.message,
                "header": self.header,
                "layout": self.layout,
                "keepBody": self.keep_body,
            }
        )
        if len(text) > MAX_TEXT:
            raise TableError(
                f"the schemas have more than {MAX_TEXT >> 20} MiB together, packed",
                "leave out comments, and schemas that no body has any more",
            )
        return text

    @staticmethod
    def from_json(text: str) -> BodySpec:
        """What `to_json` wrote. TableError for anything else."""
        try:
            if len(text) > MAX_TEXT:
                raise ValueError("it is too long")
            found = json.loads(text)
            if found["version"] != 1:
                raise ValueError(f"version {found['version']}")
            schemas = tuple(_schema(one) for one in found["schemas"])
            return BodySpec(
                str(found["form"]),
                schemas,
                str(found["message"]),
                str(found["header"]),
                str(found["layout"]),
                bool(found["keepBody"]),
            )
        except (ValueError, TypeError, KeyError, zlib.error, RecursionError) as error:
            raise TableError(
                f"the table's property {BODY} is not readable: {escape(error)[:200]}",
                "a newer version wrote it, or it was changed: write the table once with --body",
            ) from None


def spec(
    form: str = BINARY,
    schemas: Sequence[str] = (),
    message: str = "",
    header: str = frames.NONE,
    layout: str = STRUCT,
    keep_body: bool = False,
) -> BodySpec:
    """The spec of the command's options; the files of `schemas` are read."""
    loaded = tuple(schema_file.load(one) for one in schemas[: schema_file.MAX_FILES + 1])
    return BodySpec(form, loaded, message, header, layout, keep_body)


def _schema(found: dict[str, Any]) -> SchemaFile:
    inflate = zlib.decompressobj()
    content = inflate.decompress(
        base64.b64decode(found["zlib"], validate=True), schema_file.MAX_BYTES
    )
    if not inflate.eof:
        raise ValueError("a schema is too large")
    number = found["id"]
    if number is not None and not isinstance(number, int):
        raise ValueError("an id is no number")
    return SchemaFile(escape(found["name"])[:255], content, number)
