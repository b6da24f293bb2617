"""Credentials, and the signatures that they make. [AclClientRPCHook, AclSigner]"""

from __future__ import annotations

import base64
import hmac
import json
from dataclasses import dataclass, field
from unicodedata import category

from pyrmq.errors import ClientError
from pyrmq.net.client.protocol import Ext
from pyrmq.net.client.requests import SendRequest
from pyrmq.net.command import ext_text, json_text

ACCESS_KEY = "AccessKey"
SECURITY_TOKEN = "SecurityToken"
SIGNATURE = "Signature"
MAX_KEY = 1024
"""Most characters of an access key and of a secret key."""
MAX_TOKEN = 16 << 10
"""The same of a security token; those of cloud services have some thousands."""
MAX_PAIR = 64 << 10
"""Bytes of a file, or a configuration value, with credentials."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who asks: an account's access key and secret key, or a user's name and password.

    security_token: sent along with temporary keys. Secrets are not in `repr`. They are in a pickle:
    Spark sends one to its tasks. Raises ClientError for keys that are empty, too long, or contain
    control characters; its text contains no secret.
    """

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        _check("access_key", self.access_key, MAX_KEY)
        _check("secret_key", self.secret_key, MAX_KEY)
        if self.security_token != "":
            _check("security_token", self.security_token, MAX_TOKEN)

    def signed(self, ext: Ext | None, body: bytes) -> dict[str, str]:
        """The fields of a request with those that prove who asks."""
        return Signer(self).signed(ext, body)

    @classmethod
    def from_json(cls, text: str, what: str) -> Credentials:
        """Those of a JSON object with accessKey, secretKey and perhaps securityToken, as in
        RocketMQ's innerClientAuthenticationCredentials. ClientError, which names `what`."""
        try:
            found = json.loads(text) if len(text) <= MAX_PAIR else None
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict) or not found.keys() <= _JSON.keys():
            # Not the text: it may contain a secret.
            raise ClientError(f'{what} is not {{"accessKey":"…","secretKey":"…"}}')
        try:
            return cls(**{_JSON[name]: value for name, value in found.items()})
        except TypeError:
            raise ClientError(f"{what}: accessKey and secretKey are needed") from None
        except ClientError as error:
            raise ClientError(f"{what}: {error}") from None


_JSON = {
    "accessKey": "access_key",
    "secretKey": "secret_key",
    "securityToken": "security_token",
}


def _check(name: str, value: object, most: int) -> None:
    """The errors say nothing of a value."""
    if not isinstance(value, str):
        raise ClientError(f"{name} is a {type(value).__name__}; a text (str) is needed")
    if not value:
        raise ClientError(f"{name} is empty")
    if len(value) > most:
        raise ClientError(f"{name} has {len(value)} characters; at most {most} are allowed")
    if any(category(c) in ("Cc", "Cs") for c in value):
        raise ClientError(f"{name} contains a control character: is there the end of a line in it?")


class Signer:
    """Signs requests. `fields` are those that every request of a client has besides its own.

    `Signature` is the HMAC-SHA1 of all values in the order of their names, joined, and of the body,
    in base64.
    """

    def __init__(self, credentials: Credentials, fields: Ext | None = None) -> None:
        self._mac = hmac.new(credentials.secret_key.encode(), digestmod="sha1")
        self._own = {ACCESS_KEY: credentials.access_key}
        if credentials.security_token:
            self._own[SECURITY_TOKEN] = credentials.security_token
        self._first = "".join(self._own[name] for name in sorted(self._own))
        more = {name: ext_text(value) for name, value in (fields or {}).items()}
        self._last = "".join(more[name] for name in sorted(more))
        every = self._own | more
        self._json = "".join(f',"{name}":{json_text(every[name])}' for name in every)
        self._fields = more

    def signed(self, ext: Ext | None, body: bytes) -> dict[str, str]:
        """The fields of a request with `AccessKey`, perhaps `SecurityToken`, and `Signature`."""
        fields = {name: ext_text(value) for name, value in (ext or {}).items()}
        fields |= self._own
        fields |= self._fields
        fields.pop(SIGNATURE, None)
        fields[SIGNATURE] = self._signature(
            "".join([fields[name] for name in sorted(fields)]), body
        )
        return fields

    def signed_json(self, fields: SendRequest, body: bytes) -> str:
        """The same as JSON. Nothing is sorted: the names of `fields` begin with lower-case letters,
        and the fields that every request has are `ns` and `nsd`."""
        signature = self._signature(f"{self._first}{fields.values}{self._last}", body)
        return f'{fields.json}{self._json},"Signature":"{signature}"'

    def _signature(self, values: str, body: bytes) -> str:
        mac = self._mac.copy()
        mac.update(values.encode())
        mac.update(body)
        return base64.b64encode(mac.digest()).decode()
