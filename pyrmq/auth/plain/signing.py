"""Signatures of requests: what a client signed, and whether it knows the secret.

A signature is the base64 of an HMAC-SHA1, with the secret key, over the values of all fields but
`Signature` in the order of their names, followed by the body. [AclClientRPCHook, AclUtils,
AclSigner]

Clients differ in what they sign. A field that some of them leave out is tried both ways:

- `_UNIQUE_KEY_QUERY`: clients up to 4.9.3 sign only the fields of the request's header, and
  brokers of 4.9 never count it;
- `__ZONE_NAME`, `__ZONE_MODE`: Java's client adds them after it has signed;
- `SecurityToken`: the Go client does not sign it on the first try.

None of these fields says what is done to which topic or group. A command that the Go client sends a
second time is signed over its first signature, which the broker does not know: it is refused.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Iterator, Mapping

ACCESS_KEY = "AccessKey"
SIGNATURE = "Signature"
SECURITY_TOKEN = "SecurityToken"
_LEFT_OUT = (("_UNIQUE_KEY_QUERY",), ("__ZONE_NAME", "__ZONE_MODE"), (SECURITY_TOKEN,))
"""Fields that some clients do not sign, each group as a whole."""
MANY_BYTES = 64 << 10
"""A longer body is hashed twice at most."""
_V4_9_3 = 399
"""The last version whose clients never sign `_UNIQUE_KEY_QUERY`. [MQVersion]"""


def content(fields: Mapping[str, str], body: bytes, without: frozenset[str] = frozenset()) -> bytes:
    """The bytes that are signed. Names are in Java's order, that of UTF-16; halves of surrogate
    pairs are question marks, as Java encodes them."""
    names = sorted(
        (name for name in fields if name != SIGNATURE and name not in without),
        key=lambda name: name.encode("utf-16-be", "surrogatepass"),
    )
    return "".join(fields[name] for name in names).encode(errors="replace") + body


def signature(signed: bytes, secret: str) -> str:
    """The signature as a request carries it."""
    made = hmac.digest(secret.encode(errors="replace"), signed, "sha1")
    return base64.b64encode(made).decode()


def is_valid(fields: Mapping[str, str], body: bytes, version: int, secret: str) -> bool:
    """Whether the field `Signature` was made with the secret. The comparison takes the same time
    wherever the texts differ."""
    given = fields.get(SIGNATURE, "").encode(errors="replace")
    for without in _variants(fields, version, len(body) > MANY_BYTES):
        made = signature(content(fields, body, without), secret).encode()
        if hmac.compare_digest(made, given):
            return True
    return False


def _variants(fields: Mapping[str, str], version: int, few: bool) -> Iterator[frozenset[str]]:
    """Fields that the client may have left out: one variant for a request of most clients, five for
    a request with all of them, and two of these if they are to be `few`."""
    present = [frozenset(group) for group in _LEFT_OUT if any(name in fields for name in group)]
    all_of_them: frozenset[str] = frozenset().union(*present)
    if version <= _V4_9_3 and "_UNIQUE_KEY_QUERY" in fields and not few:
        yield present[0]
    yield frozenset()
    if all_of_them:
        yield all_of_them
    if len(present) > 1 and not few:
        yield from present
