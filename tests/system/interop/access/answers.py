"""Says of an answer what matters: its code and, for a refusal, the kind of it.

Texts of Apache's exceptions (DefaultAuthenticationHandler, AclAuthorizationHandler and others)
become words, since they hold addresses; the resource that was missing stays.
"""

from __future__ import annotations

import json
import re

from tests.support.wire import Command

NONE = "no answer"
_KINDS = (
    (r"(?i)username cannot be null", "no access key"),
    (r"(?i)user:\S+ is not found|user:\S+ not found", "unknown user"),
    (r"(?i)is disabled", "disabled user"),
    (r"(?i)check signature failed", "wrong signature"),
    # access control 1.0 [PlainPermissionManager]
    (r"No accessKey is configured", "no access key"),
    (r"No acl config for|No PlainAccessResource for", "unknown user"),
    (r"Need admin permission", "no admin"),
    (r"No default permission for (?P<what>[^\s,]+)", "no default"),
    (r"No permission for (?P<what>[^\s,]+)", "no permission"),
    (r"has no permission to access (?P<what>\S+) from \S+ no matched policies", "no policy"),
    (r"has no permission to access (?P<what>\S+) from \S+ the decision is deny", "denied"),
    (r"parse authorization context error", "bad fields"),
    (r"(?i)not supported", "unsupported"),
)


def kind(answer: Command | None) -> str:
    """`16 no policy Topic:T`, `0`, `3 unsupported`, `29`."""
    if answer is None:
        return NONE
    for pattern, word in _KINDS:
        if match := re.search(pattern, answer.remark or ""):
            what = match.groupdict().get("what")
            return f"{answer.code} {word}" + (f" {what}" if what else "")
    return str(answer.code)


def missing(answer: Command | None) -> str | None:
    """The resource that the user has no policy for: `Topic:T`."""
    found = re.search(r"has no permission to access (\S+) from", (answer and answer.remark) or "")
    return found[1] if found else None


def remark(answer: Command) -> str | None:
    """Without addresses, times, and what follows the first line of a Java exception."""
    if answer.remark is None:
        return None
    text = re.split(r", (?:org|com|java|jdk|io)\.\w|\n|<br>", answer.remark)[0]
    text = re.sub(r"\d+\.\d+\.\d+\.\d+(:\d+)?", "ADDRESS", text)
    text = re.sub(r"/(?:\w+/)+[\w.]+", "PATH", text)
    return re.sub(r"\d{6,}", "NUMBER", text).strip()[:160]


def shown(answer: Command | None) -> dict[str, object]:
    """Code, remark and body."""
    if answer is None:
        return {"code": NONE}
    said: dict[str, object] = {"code": answer.code}
    if text := remark(answer):
        said["remark"] = text
    if answer.body:
        said["body"] = json.loads(answer.body)
    return said
