"""Signatures of requests, made again from what the protocol says (no pyrmq code).

Source: AclClientRPCHook, AclUtils (remoting sheet, section 6.3)."""

from __future__ import annotations

import base64
import hashlib
import hmac

from tests.support.wire import Command


def signature(command: Command, secret: str) -> str:
    """What a server computes of the fields and the body that came."""
    values = [value for name, value in sorted(command.ext.items()) if name != "Signature"]
    text = "".join(values).encode() + command.body
    return base64.b64encode(hmac.new(secret.encode(), text, hashlib.sha1).digest()).decode()


def is_signed(command: Command, access_key: str, secret: str) -> bool:
    """Whether it is by that account."""
    return command.ext.get("AccessKey") == access_key and command.ext.get("Signature") == signature(
        command, secret
    )
