"""What a request needs, and whether an account has it. Pure functions.

Groups are resources under the name of their retry topic, as in RocketMQ: whoever sends to or pulls
from `%RETRY%g` needs SUB on the group g. Requests that are in neither table need an account and
nothing else. [PlainAccessValidator, PlainPermissionManager, Permission]

Stricter than RocketMQ, which lets every account make these requests: all of `ADMIN_REQUESTS` need
an administrator, and so do both that show accounts, and pyrmq's own; LITE_PULL_MESSAGE,
QUERY_CONSUMER_OFFSET, END_TRANSACTION, LOCK_BATCH_MQ and UNLOCK_BATCH_MQ need what their relatives
need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyrmq.auth.plain.accounts import Account, Permission
from pyrmq.errors import ProtocolError
from pyrmq.model.codes import RequestCode as Code
from pyrmq.model.codes import request_text
from pyrmq.model.names import HALF_TOPIC, RETRY_PREFIX, TRACE_TOPIC
from pyrmq.model.pop import normal_topic
from pyrmq.model.request_kinds import ADMIN_REQUESTS
from pyrmq.net import fastjson

MAX_VALUES = 1 << 17
"""Most JSON values of a body that names resources."""
ADMIN_CODES = frozenset(ADMIN_REQUESTS) | {
    Code.GET_BROKER_CLUSTER_ACL_INFO,
    Code.GET_BROKER_CLUSTER_ACL_CONFIG,
    Code.GET_BROKER_USE,
    Code.GET_BROKER_HISTORY,
    Code.GET_DISK_USE,
}
"""Requests that need an account with admin=true."""

Ext = Mapping[str, str]
PUB, SUB = Permission.PUB, Permission.SUB


@dataclass(frozen=True, slots=True)
class Need:
    """A permission on a topic or a group."""

    name: str
    permission: Permission
    group: bool = False


def _topic(name: str | None, permission: Permission) -> Iterator[Need]:
    """A retry topic is its group. Nothing is needed where no topic is named: the processor refuses
    the request."""
    if name is None:
        return
    if name.startswith(RETRY_PREFIX):
        yield Need(name[len(RETRY_PREFIX) :], permission, group=True)
    else:
        yield Need(name, permission)


def _group(name: str | None) -> Iterator[Need]:
    if name is not None:
        yield Need(name, SUB, group=True)


def _send(field: str) -> Callable[[Ext, bytes], Iterator[Need]]:
    """A send, whose topic is in this field. What goes to a retry topic comes from a consumer of the
    group; who sends it does not count, as Java's consumers do that with a producer of their own."""

    def needs(ext: Ext, body: bytes) -> Iterator[Need]:
        name = ext.get(field)
        retry = name is not None and name.startswith(RETRY_PREFIX)
        return _topic(name, SUB if retry else PUB)

    return needs


def _read(ext: Ext, body: bytes) -> Iterator[Need]:
    yield from _topic(ext.get("topic"), SUB)
    yield from _group(ext.get("consumerGroup"))


def _popped(ext: Ext, body: bytes) -> Iterator[Need]:
    """A pop, or an ack: a retry topic of POP is one of its group and of the topic it is for."""
    group = ext.get("consumerGroup")
    topic = ext.get("topic")
    yield from _group(group)
    yield from _topic(topic if topic is None else normal_topic(topic, group or ""), SUB)


def _acks(ext: Ext, body: bytes) -> Iterator[Need]:
    rows = fastjson.loads_object(body, MAX_VALUES).get("acks")
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict):
            names = (row.get("c", row.get("consumerGroup")), row.get("t", row.get("topic")))
            group, topic = (name if isinstance(name, str) else "" for name in names)
            yield from _popped({"consumerGroup": group, "topic": topic}, b"")


def _assigned(ext: Ext, body: bytes) -> Iterator[Need]:
    data = fastjson.loads_object(body, MAX_VALUES)
    group, topic = data.get("consumerGroup"), data.get("topic")
    yield from _group(group if isinstance(group, str) else None)
    yield from _topic(topic if isinstance(topic, str) else None, SUB)


def _end(ext: Ext, body: bytes) -> Iterator[Need]:
    """A transaction that ends. Java clients of 5.x that were asked about a half state the topic
    where halves are kept; those of 4.x state none."""
    name = ext.get("topic")
    return _topic(None if name == HALF_TOPIC else name, PUB)


def _of_group(field: str) -> Callable[[Ext, bytes], Iterator[Need]]:
    return lambda ext, body: _group(ext.get(field))


def _texts(rows: object, name: str) -> Iterator[tuple[dict[Any, Any], str | None]]:
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict):
            value = row.get(name)
            yield row, value if isinstance(value, str) else None


def _heartbeat(ext: Ext, body: bytes) -> Iterator[Need]:
    """Producers are not checked."""
    data = fastjson.loads_object(body, MAX_VALUES)
    for consumer, group in _texts(data.get("consumerDataSet"), "groupName"):
        yield from _group(group)
        for _, topic in _texts(consumer.get("subscriptionDataSet"), "topic"):
            yield from _topic(topic, SUB)


def _lock(ext: Ext, body: bytes) -> Iterator[Need]:
    data = fastjson.loads_object(body, MAX_VALUES)
    group = data.get("consumerGroup")
    yield from _group(group if isinstance(group, str) else None)
    for _, topic in _texts(data.get("mqSet"), "topic"):
        yield from _topic(topic, SUB)


NEEDS: Mapping[int, Callable[[Ext, bytes], Iterator[Need]]] = {
    Code.SEND_MESSAGE: _send("topic"),
    Code.SEND_MESSAGE_V2: _send("b"),
    Code.SEND_BATCH_MESSAGE: _send("b"),
    Code.CONSUMER_SEND_MSG_BACK: _of_group("group"),
    Code.PULL_MESSAGE: _read,
    Code.LITE_PULL_MESSAGE: _read,
    Code.QUERY_CONSUMER_OFFSET: _read,
    Code.UPDATE_CONSUMER_OFFSET: _read,
    Code.POP_MESSAGE: _popped,
    Code.ACK_MESSAGE: _popped,
    Code.BATCH_ACK_MESSAGE: _acks,
    Code.CHANGE_MESSAGE_INVISIBLETIME: _popped,
    Code.PEEK_MESSAGE: _popped,
    Code.NOTIFICATION: _popped,
    Code.POLLING_INFO: _popped,
    Code.QUERY_ASSIGNMENT: _assigned,
    Code.QUERY_MESSAGE: lambda ext, body: _topic(ext.get("topic"), SUB),
    Code.HEART_BEAT: _heartbeat,
    Code.UNREGISTER_CLIENT: _of_group("consumerGroup"),
    Code.GET_CONSUMER_LIST_BY_GROUP: _of_group("consumerGroup"),
    Code.END_TRANSACTION: _end,
    Code.RECALL_MESSAGE: lambda ext, body: _topic(ext.get("topic"), PUB),
    Code.LOCK_BATCH_MQ: _lock,
    Code.UNLOCK_BATCH_MQ: _lock,
}
"""By request code: the permissions that a request needs."""


def needs_of(code: int, ext: Ext, body: bytes) -> list[Need]:
    """ProtocolError if a body that names resources cannot be read."""
    found = NEEDS.get(code)
    return list(found(ext, body)) if found else []


def grants(owned: Permission, needed: Permission) -> bool:
    """Whether a permission is enough. DENY wins. [Permission.checkPermission]"""
    if owned & Permission.DENY:
        return False
    if needed & Permission.ANY:
        return bool(owned & (PUB | SUB))
    return bool(owned & needed)


def owned(account: Account, need: Need) -> Permission:
    """What the account has for the resource of a need: what is listed, or else the default."""
    if need.group:
        return account.groups.get(need.name, account.default_group)
    return account.topics.get(need.name, account.default_topic)


def refusal(account: Account, code: int, ext: Ext, body: bytes) -> str | None:
    """Why the account may not make this request; None: it may."""
    if account.admin:
        return None
    if code in ADMIN_CODES:
        return f"{request_text(code)} needs an account with admin=true"
    try:
        needs = needs_of(code, ext, body)
    except ProtocolError as e:
        return str(e)
    if any(n.name == TRACE_TOPIC and n.permission == PUB and not n.group for n in needs):
        return None  # of message trace: every account may
    return _unmet(account, needs)


def refusal_of_topic(account: Account, topic: str, permission: Permission) -> str | None:
    """Why the account may not do this to a topic; None: it may."""
    return None if account.admin else _unmet(account, _topic(topic, permission))


def _unmet(account: Account, needs: Iterable[Need]) -> str | None:
    for need in needs:
        if not grants(owned(account, need), need.permission):
            kind = "group" if need.group else "topic"
            return f"no {need.permission.name} permission for {kind} {need.name[:255]}"
    return None
