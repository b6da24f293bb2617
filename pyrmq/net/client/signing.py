"""Signed requests, for brokers that want to know who asks. [AclClientRPCHook, AclSigner]"""

from __future__ import annotations

import base64
import hmac
from dataclasses import dataclass, field

from pyrmq.net.client.protocol import Ext
from pyrmq.net.command import ext_text


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who asks: a user's name and password, or an account's access and secret key."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str = field(default="", repr=False)

    def signed(self, ext: Ext | None, body: bytes) -> dict[str, str]:
        """The fields of a request with those that prove who asks: `AccessKey`, `SecurityToken` if
        there is one, and `Signature`, the HMAC-SHA1 of all values in the order of their names and
        of the body, in base64."""
        fields = {name: ext_text(value) for name, value in (ext or {}).items()}
        fields["AccessKey"] = self.access_key
        if self.security_token:
            fields["SecurityToken"] = self.security_token
        text = "".join(fields[name] for name in sorted(fields))
        made = hmac.digest(self.secret_key.encode(), text.encode() + body, "sha1")
        return {**fields, "Signature": base64.b64encode(made).decode()}
