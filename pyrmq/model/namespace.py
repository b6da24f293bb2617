"""Namespaces of RocketMQ 4: topics and groups named `namespace%name`. [NamespaceUtil]"""

from __future__ import annotations

from pyrmq.model.names import DLQ_PREFIX, RETRY_PREFIX, SYSTEM_TOPICS

SEPARATOR = "%"
_SYSTEM_GROUP = "CID_RMQ_SYS_"
_SYSTEM_TOPICS = ("rmq_sys_", "RMQ_SYS_")


def _parts(name: str) -> tuple[str, str]:
    """The prefix of a retry or dead-letter topic, and the rest."""
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        if name.startswith(prefix):
            return prefix, name[len(prefix) :]
    return "", name


def with_namespace(namespace: str, name: str) -> str:
    """`name` as brokers know it. Names of the system and those that have the namespace stay."""
    if not namespace or name in SYSTEM_TOPICS or name.startswith((_SYSTEM_GROUP, *_SYSTEM_TOPICS)):
        return name
    prefix, rest = _parts(name)
    if rest.startswith(namespace + SEPARATOR):
        return name
    return f"{prefix}{namespace}{SEPARATOR}{rest}"


def without_namespace(namespace: str, name: str) -> str:
    """`name` as users know it."""
    prefix, rest = _parts(name)
    return prefix + rest.removeprefix(namespace + SEPARATOR) if namespace else name
