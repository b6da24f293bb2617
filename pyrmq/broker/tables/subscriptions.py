"""What the members of consumer groups subscribe to: whether they agree, and the memory it takes.

A group has one set of subscriptions, that of the last heartbeat [ConsumerGroupInfo]. Members that
want different topics take the set from each other with every heartbeat. Members with different
expressions lose messages: one of them pulls what the other wants, and leaves it out. It is easily
deployed by mistake, and only `mqadmin consumerStatus` of RocketMQ finds it. So `Agreement` logs it,
and shows it. Members that pull by themselves (CONSUME_ACTIVELY) do not count: each may have queues
of its own.

`Subscribed` bounds what the groups and subscriptions of each connection, and of all, take. A client
states them with every heartbeat, and each of its groups may be in a heartbeat of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyrmq.errors import InvalidParameterError, SystemBusyError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.subscription import ALL, TAG, Subscription
from pyrmq.net.server.connection import Connection

log = logging.getLogger(__name__)

SILENCE = 60.0
"""Seconds between two warnings about one group."""
SHOWN = 200
"""Characters of what one member wants, in the log."""
TAGS_SHOWN = 100
"""Tags of one subscription that are shown."""

Subscriptions = Mapping[str, Subscription]
"""By topic."""
Wish = tuple[str, str, str | frozenset[str]]
"""A topic, the kind of expression, and the expression: of tags the order says nothing. The topic ""
stands for how a group shares its messages."""
Wishes = frozenset[Wish]
MAX_BYTES_PER_CONNECTION = 8 << 20
"""Bytes that the groups and subscriptions of a connection take at most, about."""
MAX_BYTES = 512 << 20
"""The same of all connections."""
MAX_TAGS = 16_384
"""Most tags, and most codes of tags, that a heartbeat states."""
MEMBER_BYTES = 320
"""Bytes of a member of a group, about, beside the group's name."""
SUBSCRIPTION_BYTES = 512
"""Bytes of one, about, without its texts."""
TAG_BYTES = 80
"""Bytes of a tag, about, beside its text; and of a code."""
PRODUCING, CONSUMING = "producing", "consuming"
SubscribedBy = tuple[str, str]
"""PRODUCING or CONSUMING, and the group's name."""


def wish(sub: Subscription) -> Wish:
    if sub.expression_type != TAG:
        return sub.topic, sub.expression_type, sub.sub_string
    return sub.topic, TAG, sub.tags or ALL


def expression(wanted: Wish) -> str:
    """As it is shown."""
    _, kind, what = wanted
    if isinstance(what, str):
        return what if kind == TAG else f"{kind}: {what}"
    return " || ".join(sorted(what)) if len(what) <= TAGS_SHOWN else f"{len(what)} tags"


@dataclass(slots=True)
class _Kind:
    """Members that want the same."""

    wishes: Wishes
    members: int = 0


@dataclass(slots=True)
class _Member:
    client_id: str
    subscriptions: Subscriptions
    kind: _Kind

    def says(self, client_id: str, wishes: Wishes, subscriptions: Subscriptions) -> bool:
        """Whether it has said just this."""
        return (
            self.client_id == client_id
            and self.kind.wishes == wishes
            and self.subscriptions.keys() == subscriptions.keys()
            and all(self.subscriptions[topic] is sub for topic, sub in subscriptions.items())
        )


class Agreement:
    """The subscriptions that each member of a group stated last."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._members: dict[Connection, _Member] = {}
        self._kinds: dict[Wishes, _Kind] = {}
        self._logged: frozenset[Wishes] = frozenset()
        """The kinds that the last warning was about."""
        self._silent_until = 0.0

    @property
    def differs(self) -> bool:
        """Whether two members want something different."""
        return len(self._kinds) > 1

    def state(
        self, connection: Connection, client_id: str, model: str, subscriptions: Subscriptions
    ) -> None:
        """A member says what it wants. One that says the same again leaves no new objects: of many
        groups these would be much for the garbage collector."""
        member = self._members.get(connection)
        wishes = frozenset([("", TAG, model), *map(wish, subscriptions.values())])
        if member is not None and member.says(client_id, wishes, subscriptions):
            return
        kind = self._kinds.get(wishes) or _Kind(wishes)
        kind.members += 1
        self._kinds[wishes] = kind
        self.gone(connection)
        self._members[connection] = _Member(client_id, subscriptions, kind)

    def gone(self, connection: Connection) -> None:
        """A member has left, or does not count any more."""
        member = self._members.pop(connection, None)
        if member is not None:
            member.kind.members -= 1
            if not member.kind.members:
                del self._kinds[member.kind.wishes]

    def shown(self, connection: Connection) -> dict[str, str] | None:
        """The expression of a member by topic; None if it has stated nothing."""
        member = self._members.get(connection)
        if member is None:
            return None
        return {t: expression(wish(sub)) for t, sub in sorted(member.subscriptions.items())}

    def holds(self, sub: Subscription) -> bool:
        """Whether a member has stated this very subscription."""
        found = (member.subscriptions.get(sub.topic) for member in self._members.values())
        return any(other is not None and is_same(other, sub) for other in found)

    def latest(self, topic: str) -> Subscription | None:
        """The latest subscription to a topic that a member has stated."""
        found = (member.subscriptions.get(topic) for member in self._members.values())
        return max((sub for sub in found if sub is not None), key=_version, default=None)

    def report(self, now: float) -> None:
        """Logs that members differ, once whenever they do so in a new way, and that they do not any
        more. `now` in seconds."""
        if not self.differs:
            if self._logged:
                log.info(
                    "group %s: all members subscribe to the same again",
                    escape(self._group),
                    extra=about(group=self._group),
                )
                self._logged = frozenset()
            return
        kinds = frozenset(self._kinds)
        if kinds != self._logged and now >= self._silent_until:
            self._logged, self._silent_until = kinds, now + SILENCE
            log.warning(
                "group %s: members subscribe differently, so that some miss messages: %s",
                escape(self._group),
                escape("; ".join(self._described())),
                extra=about(group=self._group),
            )

    def _described(self) -> list[str]:
        """Two members that differ, and what each wants that the other does not."""
        first = next(iter(self._members.values()))
        other = next(m for m in self._members.values() if m.kind is not first.kind)
        pairs = ((first, other.kind.wishes), (other, first.kind.wishes))
        return [f"{m.client_id} wants {_words(m.kind.wishes - than)}" for m, than in pairs]


def is_same(one: Subscription, other: Subscription) -> bool:
    """Whether both say the same, and are of the same version."""
    return one is other or (one.version == other.version and wish(one) == wish(other))


def _version(sub: Subscription) -> int:
    return sub.version


def _words(wishes: Wishes) -> str:
    found = sorted((w[0], expression(w)) for w in wishes)
    text = ", ".join(f"{topic} ({what})" if topic else what for topic, what in found)
    return (text[:SHOWN] + "…" if len(text) > SHOWN else text) or "nothing else"


def cost_of_member(group: str) -> int:
    """Bytes that a member takes, without its subscriptions."""
    return MEMBER_BYTES + len(group)


def cost(consumer: Mapping[Any, Any]) -> tuple[int, int]:
    """How many tags and codes a ConsumerData states, and the bytes that it takes."""
    subscriptions = consumer.get("subscriptionDataSet")
    count, size = 0, cost_of_member(consumer["groupName"])
    for sub in subscriptions if isinstance(subscriptions, list) else ():
        if not isinstance(sub, dict):
            continue
        size += SUBSCRIPTION_BYTES
        size += sum(len(sub[k]) for k in ("topic", "subString") if isinstance(sub.get(k), str))
        for key in ("tagsSet", "codeSet"):
            if isinstance(stated := sub.get(key), list):
                count += len(stated)
                size += sum(TAG_BYTES + (len(t) if isinstance(t, str) else 0) for t in stated)
        if not sub.get("codeSet") and (sub.get("expressionType") or TAG) == TAG:
            text = sub.get("subString")  # this broker makes tags and codes of it
            made = text.count("||") + 1 if isinstance(text, str) else 0
            count += made
            size += 2 * TAG_BYTES * made
    return count, size


class Subscribed:
    """By connection and group, what was taken."""

    def __init__(self) -> None:
        self._taken: dict[Connection, dict[SubscribedBy, int]] = {}
        self._total = 0

    def check(self, connection: Connection, sizes: Mapping[SubscribedBy, int]) -> None:
        """Whether these groups may take so much: InvalidParameterError, SystemBusyError."""
        had = self._taken.get(connection, {})
        added = sum(size - had.get(group, 0) for group, size in sizes.items())
        if added > 0:
            mine = sum(had.values()) + added
            if mine > MAX_BYTES_PER_CONNECTION:
                raise InvalidParameterError(
                    f"groups and subscriptions of a connection would take {mine} bytes: at most "
                    f"{MAX_BYTES_PER_CONNECTION}"
                )
            if self._total + added > MAX_BYTES:
                raise SystemBusyError(
                    f"[OVERLOAD]groups and subscriptions of all clients take {self._total} "
                    "bytes already"
                )

    def take(self, connection: Connection, group: SubscribedBy, size: int) -> None:
        """A group takes so much from now on, until `forget`."""
        mine = self._taken.setdefault(connection, {})
        self._total += size - mine.get(group, 0)
        mine[group] = size

    def forget(self, connection: Connection, group: SubscribedBy) -> None:
        """The connection has left the group."""
        mine = self._taken.get(connection, {})
        self._total -= mine.pop(group, 0)
        if not mine:
            self._taken.pop(connection, None)
