"""Whether the members of a consumer group subscribe to the same.

A group has one set of subscriptions, that of the last heartbeat [ConsumerGroupInfo]. Members that
want different topics take the set from each other with every heartbeat; of members with different
expressions one gets what the other wants, and leaves it out. It is easily deployed by mistake, and
only `mqadmin consumerStatus` of RocketMQ finds it. So it is logged here, and shown.

Members that pull by themselves (CONSUME_ACTIVELY) do not count: each may have queues of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from pyrmq.escape import escape
from pyrmq.model.subscription import ALL, TAG, Subscription
from pyrmq.net.server.connection import Connection

log = logging.getLogger(__name__)

SILENCE = 60.0
"""Seconds between two warnings about one group."""
SHOWN = 200
"""Characters of what one member wants, in the log."""
MAX_TAGS = 100
"""Tags of one subscription that are shown."""

Subscriptions = Mapping[str, Subscription]
"""By topic."""
Wish = tuple[str, str, str | frozenset[str]]
"""A topic, the kind of expression, and the expression: of tags the order says nothing. The topic ""
stands for how a group shares its messages."""
Wishes = frozenset[Wish]


def wish(sub: Subscription) -> Wish:
    if sub.expression_type != TAG:
        return sub.topic, sub.expression_type, sub.sub_string
    return sub.topic, TAG, sub.tags or ALL


def expression(wanted: Wish) -> str:
    """As it is shown."""
    _, kind, what = wanted
    if isinstance(what, str):
        return what if kind == TAG else f"{kind}: {what}"
    return " || ".join(sorted(what)) if len(what) <= MAX_TAGS else f"{len(what)} tags"


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


class Agreement:
    """What each member of a group has stated last."""

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
        """A member says what it wants."""
        wishes = frozenset([("", TAG, model), *map(wish, subscriptions.values())])
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
        """What a member wants, by topic; None if it has not said so."""
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
                log.info("group %s: all members subscribe to the same again", escape(self._group))
                self._logged = frozenset()
            return
        kinds = frozenset(self._kinds)
        if kinds != self._logged and now >= self._silent_until:
            self._logged, self._silent_until = kinds, now + SILENCE
            log.warning(
                "group %s: members subscribe differently, so that some miss messages: %s",
                escape(self._group),
                escape("; ".join(self._described())),
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
