"""What the tests of bodies share: a decoder of schemas in Python, and its answers as rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from pyrmq.tables.bodies.decoder import Decoder, decoder
from pyrmq.tables.bodies.schema_file import SchemaFile
from pyrmq.tables.bodies.spec import BodySpec


def schema_file(content: Any, number: int | None = None) -> SchemaFile:
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    return SchemaFile("orders.schema", raw, number)


def decoder_of(form: str, *schemas: Any, **how: Any) -> Decoder:
    files = tuple(one if isinstance(one, SchemaFile) else schema_file(one) for one in schemas)
    return decoder(BodySpec(form, files, **how))


def decoded(
    found: Decoder, bodies: Sequence[bytes | None]
) -> tuple[list[dict[str, Any] | None], dict[int, str]]:
    """The column `value` by row, None where the body does not fit, and the reasons by row. Both
    parts are checked: each row is in one of them, once."""
    batch = pa.record_batch(
        {"queueOffset": pa.array(range(len(bodies))), "body": pa.array(bodies, pa.binary())}
    )
    rows: dict[int, dict[str, Any] | None] = {}
    reasons: dict[int, str] = {}
    for part in found.decode(batch):
        part.good.validate(full=True)
        part.bad.validate(full=True)
        assert part.good.schema.field("value").type == found.schema.field("value").type
        assert "body" not in part.good.schema.names
        for row in part.good.to_pylist(maps_as_pydicts="strict"):
            assert row["queueOffset"] not in rows
            rows[row["queueOffset"]] = row["value"]
        for row in part.bad.to_pylist():
            assert row["queueOffset"] not in rows
            assert row["body"] == bodies[row["queueOffset"]]
            rows[row["queueOffset"]] = None
            reasons[row["queueOffset"]] = row["error"]
    assert sorted(rows) == list(range(len(bodies)))
    return [rows[at] for at in range(len(bodies))], reasons


def reason(found: Decoder, body: bytes) -> str:
    """Why this body does not fit."""
    rows, reasons = decoded(found, [body])
    assert rows == [None], f"it fits: {rows}"
    return reasons[0]
