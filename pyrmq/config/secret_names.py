"""Names of keys whose values are shown to nobody, also keys of Apache RocketMQ."""

from __future__ import annotations

import re

_SECRET = re.compile(
    r"pass(word|wd|phrase)|secret|credential|private_?key|(auth|access|refresh)_?token"
    r"|init_?authentication_?user",
    re.IGNORECASE,
)


def is_secret(name: str) -> bool:
    """Whether the value of a key or a member of this name is a secret."""
    return _SECRET.search(name) is not None
