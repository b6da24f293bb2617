"""Bodies of records, as they are shown."""

from __future__ import annotations

from typing import Any


def body_as_sent(record: dict[str, Any]) -> bytes | None:
    """The body of a record, decompressed; None if that cannot be done."""
    from pyrmq.errors import ProtocolError
    from pyrmq.model.compression import decompress

    try:
        return decompress(record["body"], record["sysFlag"])
    except ProtocolError:
        return None


def with_body(record: dict[str, Any], form: str) -> dict[str, Any]:
    """The record with its body as it is to be shown; compressed text is shown as what it was."""
    import base64

    sent = body_as_sent(record) if form == "text" else None
    raw: bytes = record.pop("body")
    record["bodyLength"] = len(raw)
    if form == "none":
        return record
    if form == "hex":
        return {**record, "body": raw.hex(), "bodyEncoding": "hex"}
    if sent is not None:
        try:
            return {**record, "body": sent.decode(), "bodyEncoding": "text"}
        except UnicodeDecodeError:
            pass  # it is no text
    return {**record, "body": base64.b64encode(raw).decode(), "bodyEncoding": "base64"}
