"""Reads until when the certificates of a PEM file are valid.

Only the few parts of DER before the date are taken apart. A certificate is not verified here.
"""

from __future__ import annotations

import base64
import binascii
from datetime import UTC, datetime
from pathlib import Path

from pyrmq.doctor.facts import Certificate

MAX_SIZE = 1 << 20
_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
_SEQUENCE, _VERSION, _INTEGER, _UTC, _GENERALIZED = 0x30, 0xA0, 0x02, 0x17, 0x18


def certificate(path: Path, key: str) -> Certificate:
    """The earliest end of the certificates of a file."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_SIZE + 1)
    except OSError as e:
        return Certificate(path, key, problem=e.strerror or str(e))
    parts = raw[:MAX_SIZE].decode("ascii", "replace").split(_BEGIN)[1:]
    bodies = [part.partition(_END)[0] for part in parts if _END in part]
    if not bodies:
        return Certificate(path, key, problem="it has no certificate: a PEM file is expected")
    try:
        ends = [not_after(base64.b64decode("".join(body.split()))) for body in bodies]
    except (ValueError, binascii.Error) as e:
        return Certificate(path, key, problem=f"a certificate that cannot be read: {e}")
    return Certificate(path, key, min(ends))


def not_after(der: bytes) -> float:
    """The end of a certificate, seconds since 1970. ValueError."""
    _, body, _ = _part(der, _SEQUENCE)
    _, tbs, _ = _part(body, _SEQUENCE)
    if tbs[:1] == bytes([_VERSION]):
        _, _, tbs = _part(tbs, _VERSION)
    for kind in (_INTEGER, _SEQUENCE, _SEQUENCE):  # serial number, signature, issuer
        _, _, tbs = _part(tbs, kind)
    _, validity, _ = _part(tbs, _SEQUENCE)
    _, _, after = _part(validity, None)
    kind, text, _ = _part(after, None)
    form = {_UTC: "%y%m%d%H%M%SZ", _GENERALIZED: "%Y%m%d%H%M%SZ"}.get(kind)
    if form is None:
        raise ValueError("its validity is no time")
    found = datetime.strptime(text.decode("ascii"), form)
    if kind == _UTC and found.year >= 2050:  # two digits stand for 1950 to 2049
        found = found.replace(year=found.year - 100)
    return found.replace(tzinfo=UTC).timestamp()


def _part(raw: bytes, kind: int | None) -> tuple[int, bytes, bytes]:
    """Tag, content and what follows, of the first value. ValueError."""
    if len(raw) < 2:
        raise ValueError("it ends early")
    tag, size, at = raw[0], raw[1], 2
    if size & 0x80:
        many = size & 0x7F
        if not 1 <= many <= 4 or len(raw) < 2 + many:
            raise ValueError("a length that is none")
        size, at = int.from_bytes(raw[2 : 2 + many]), 2 + many
    if kind is not None and tag != kind:
        raise ValueError("it is no certificate")
    if len(raw) < at + size:
        raise ValueError("it ends early")
    return tag, raw[at : at + size], raw[at + size :]
