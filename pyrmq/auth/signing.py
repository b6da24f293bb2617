"""Whether a request is signed with a password, a secret key. [AclSigner, AclUtils,
AclClientRPCHook]

The signed text is the values of all ext fields but Signature, in the order of their names, and the
body. Signature is its HMAC-SHA1, in Base64. Some clients sign less, or more, than that text; what
they sign instead is tried after it, and only for requests that look like theirs:

- clients up to 4.9.3 sign only the fields of the header, without `_UNIQUE_KEY_QUERY`;
- Java clients add `__ZONE_NAME` and `__ZONE_MODE` after they have signed;
- the Go client does not sign its SecurityToken at first, and what it sends again it signs over the
  signature before.

None of these fields says what is done to which topic or group.
"""

from __future__ import annotations

import binascii
import hmac
from collections.abc import Iterator

from pyrmq.engine import Command
from pyrmq.model.codes import LANGUAGES

ACCESS_KEY = "AccessKey"
SIGNATURE = "Signature"
SECURITY_TOKEN = "SecurityToken"
UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"
ZONES = frozenset({"__ZONE_NAME", "__ZONE_MODE"})
"""Fields that Java clients add after they have signed."""
V4_9_3 = 399
"""MQVersion of the last Java clients that sign only the declared fields of a header. Go clients
state a lower one, and sign all fields."""
GO = LANGUAGES.index("GO")
GO_RESENDS = 3
"""How often a Go client may have signed the same request again, over the signature before."""
MANY_BYTES = 64 << 10
"""A longer request is hashed twice at most, that of a Go client eight times."""
MOST_RESENT = 4 << 20
"""A longer request was not sent again by a Go client: no message is so long."""
_DUMMY = b"\x00" * 16


def _text(values: dict[str, str]) -> bytes:
    """The values in the order of their names, as Java compares texts: by UTF-16 units."""
    names = sorted(values, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
    return "".join(values[name] for name in names).encode(errors="replace")


def _sign(password: bytes, values: dict[str, str], body: bytes) -> str:
    digest = hmac.new(password, _text(values), "sha1")
    digest.update(body)
    return binascii.b2a_base64(digest.digest(), newline=False).decode()


def _variants(command: Command, fields: dict[str, str]) -> Iterator[dict[str, str]]:
    """The fields that may have been signed, the usual ones first."""
    left_out: list[frozenset[str]] = []
    if UNIQUE_KEY_QUERY in fields and command.version <= V4_9_3:
        left_out.append(frozenset({UNIQUE_KEY_QUERY}))
    if not ZONES.isdisjoint(fields):
        left_out.append(ZONES)
    if SECURITY_TOKEN in fields and command.language == GO:
        left_out.append(frozenset({SECURITY_TOKEN}))
    if left_out and command.size > MANY_BYTES:
        left_out = [frozenset[str]().union(*left_out)]
    for bits in range(1 << len(left_out)):
        without: set[str] = set()
        for i, names in enumerate(left_out):
            if bits >> i & 1:
                without |= names
        yield {name: value for name, value in fields.items() if name not in without}


def is_signed(command: Command, password: str) -> bool:
    """Whether the signature of a request is that of this password. Takes the same time whatever
    part of the signature is wrong."""
    given = command.ext.get(SIGNATURE, "").encode(errors="replace")
    key = password.encode(errors="replace")
    fields = {name: value for name, value in command.ext.items() if name != SIGNATURE}
    for values in _variants(command, fields):
        made = _sign(key, values, command.body)
        if hmac.compare_digest(made.encode(), given):
            return True
        if command.language == GO and command.size <= MOST_RESENT:
            for _ in range(GO_RESENDS):
                made = _sign(key, {**values, SIGNATURE: made}, command.body)
                if hmac.compare_digest(made.encode(), given):
                    return True
    return False


def as_for_a_user(command: Command) -> None:
    """Does the work of `is_signed` for a request of a user that is not there."""
    is_signed(command, _DUMMY.hex())
