"""What each request needs, by request code: the parts of which a row is made.

A row has parts. Each part finds needs in the fields or in the body of a request, exactly where its
processor reads them. `pyrmq.auth.table` has the rows. A resource that a request does not name is a
name that is empty: only an entry for all names matches it.
[DefaultAuthorizationContextBuilder, RocketMQAction, RocketMQResource]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from pyrmq.auth.decide import Need
from pyrmq.auth.model import Action, Resource, cluster, group, topic
from pyrmq.engine import Command
from pyrmq.errors import InvalidParameterError
from pyrmq.model.codes import RequestCode
from pyrmq.model.names import AUTO_CREATE_TOPIC, HALF_TOPIC, RETRY_PREFIX
from pyrmq.model.pop import normal_topic
from pyrmq.net import fastjson

Actions = frozenset[Action]
PUB = frozenset({Action.PUB})
SUB = frozenset({Action.SUB})
GET = frozenset({Action.GET})
CREATE = frozenset({Action.CREATE})
UPDATE = frozenset({Action.UPDATE})
DELETE = frozenset({Action.DELETE})
SUB_GET = frozenset({Action.SUB, Action.GET})
SUB_UPDATE = frozenset({Action.SUB, Action.UPDATE})
PUB_SUB_GET = frozenset({Action.PUB, Action.SUB, Action.GET})

MAX_NEEDS = 8192
"""Topics and groups that one request names, at most."""
MAX_VALUES = 1 << 17
"""Most JSON values of a body that is read for its names."""
_LONG = (RequestCode.SEND_MESSAGE, RequestCode.SEND_REPLY_MESSAGE)
"""Sends whose fields have their whole names; the others have letters."""


def shown(actions: Actions) -> str:
    return "/".join(action.value for action in Action if action in actions)


class Part(Protocol):
    def find(self, command: Command, own_cluster: str) -> Iterator[Need]:
        """The needs of a request to a server of this cluster."""

    def __str__(self) -> str:
        """For the documentation."""


def of_topic(name: str, actions: Actions, of_group: Actions | None = None) -> Need:
    """A right to a topic. That to a retry topic is one to its group."""
    if name.startswith(RETRY_PREFIX):
        return Need(group(name[len(RETRY_PREFIX) :]), of_group or actions)
    return Need(topic(name), actions)


@dataclass(frozen=True, slots=True)
class Topic:
    """The topic of a field. `optional`: a request without it needs nothing for it. `split`: the
    field has several, separated by this."""

    actions: Actions
    field: str = "topic"
    of_group: Actions | None = None
    """The actions on its group where it is a retry topic; None: the same."""
    optional: bool = False
    split: str = ""

    def find(self, command: Command, own_cluster: str) -> Iterator[Need]:
        for name in _named(command, self.field, self.optional, self.split):
            yield of_topic(name, self.actions, self.of_group)

    def __str__(self) -> str:
        return f"Topic {shown(self.actions)}" + _if_stated(self.optional, self.field)


@dataclass(frozen=True, slots=True)
class Group:
    """The group of a field."""

    actions: Actions
    field: str = "consumerGroup"
    optional: bool = False
    split: str = ""

    def find(self, command: Command, own_cluster: str) -> Iterator[Need]:
        for name in _named(command, self.field, self.optional, self.split):
            yield Need(group(name), self.actions)

    def __str__(self) -> str:
        return f"Group {shown(self.actions)}" + _if_stated(self.optional, self.field)


def _named(command: Command, field: str, optional: bool, split: str) -> list[str]:
    text = command.ext.get(field, "")
    if optional and not text:
        return []
    return [part for part in text.split(split) if part] or [""] if split else [text]


def _if_stated(optional: bool, field: str) -> str:
    return f" (if `{field}` is stated)" if optional else ""


@dataclass(frozen=True, slots=True)
class Cluster:
    """The server's own cluster, or that of a field."""

    actions: Actions
    field: str = ""

    def find(self, command: Command, own_cluster: str) -> Iterator[Need]:
        name = command.ext.get(self.field, "") if self.field else own_cluster
        yield Need(cluster(name), self.actions)

    def __str__(self) -> str:
        return f"Cluster {shown(self.actions)}" + (f" (of `{self.field}`)" if self.field else "")


@dataclass(frozen=True, slots=True)
class AllClusters:
    """A resource that only `Cluster:*` and `*` match: a name server has no cluster of its own."""

    actions: Actions

    def find(self, command: Command, own_cluster: str) -> Iterator[Need]:
        yield Need(cluster("*"), self.actions)

    def __str__(self) -> str:
        return f"Cluster:* {shown(self.actions)}"


@dataclass(frozen=True, slots=True)
class Send:
    """The topic that a message is sent to, in the field that the processor reads."""

    def find(self, command: Command, own_cluster: str) -> Iterator[Need]:
        field = "topic" if command.code in _LONG else "b"
        yield of_topic(command.ext.get(field, ""), PUB, SUB)

    def __str__(self) -> str:
        return "Topic Pub; of a retry topic: its group Sub"


@dataclass(frozen=True, slots=True)
class End:
    """The topic of a transaction that ends, if it is stated. Java clients of 5.x that were asked
    about a half state the topic of that question: it is where halves are kept, and nobody's."""

    def find(self, command: Command, own_cluster: str) -> Iterator[Need]:
        name = command.ext.get("topic", "")
        if name not in ("", HALF_TOPIC):
            yield of_topic(name, PUB)

    def __str__(self) -> str:
        return f"Topic Pub (if `topic` is stated, and is not {HALF_TOPIC})"


@dataclass(frozen=True, slots=True)
class Route:
    """Whose route is asked for. All users may ask for that of the topic that new topics are made
    from: producers ask for it before their topic exists."""

    def find(self, command: Command, own_cluster: str) -> Iterator[Need]:
        name = command.ext.get("topic", "")
        if name != AUTO_CREATE_TOPIC:
            yield of_topic(name, PUB_SUB_GET, SUB_GET)

    def __str__(self) -> str:
        return f"Topic Pub/Sub/Get; of a retry topic: its group Sub/Get; {AUTO_CREATE_TOPIC}: none"


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The consumer groups of a heartbeat, and what they subscribe to. Producer groups are not
    checked, as in RocketMQ."""

    def find(self, command: Command, own_cluster: str) -> Iterator[Need]:
        body = fastjson.loads_object(command.body, MAX_VALUES)
        for consumer in _rows(body, "consumerDataSet"):
            yield Need(group(_text(consumer, "groupName")), SUB)
            for subscription in _rows(consumer, "subscriptionDataSet"):
                yield of_topic(_text(subscription, "topic"), SUB)

    def __str__(self) -> str:
        return "each consumer Group Sub; each subscribed Topic Sub, of a retry topic its group"


@dataclass(frozen=True, slots=True)
class Locks:
    """The group and the topics of a request that locks queues."""

    def find(self, command: Command, own_cluster: str) -> Iterator[Need]:
        body = fastjson.loads_object(command.body)
        yield Need(group(_text(body, "consumerGroup")), SUB)
        for name in {_text(queue, "topic"): None for queue in _rows(body, "mqSet")}:
            yield of_topic(name, SUB)

    def __str__(self) -> str:
        return "Group Sub; each Topic Sub, of a retry topic its group"


@dataclass(frozen=True, slots=True)
class Popped:
    """The group and the topic of a request about messages that are popped. A retry topic of POP is
    one of its group and of the topic that it is for."""

    actions: Actions = SUB

    def find(self, command: Command, own_cluster: str) -> Iterator[Need]:
        name = command.ext.get("consumerGroup", "")
        yield Need(group(name), self.actions)
        yield of_topic(normal_topic(command.ext.get("topic", ""), name), self.actions)

    def __str__(self) -> str:
        return f"Group {shown(self.actions)}; Topic {shown(self.actions)}, of a retry topic its own"


@dataclass(frozen=True, slots=True)
class BatchAcks:
    """The groups and the topics of a batch of acks."""

    def find(self, command: Command, own_cluster: str) -> Iterator[Need]:
        body = fastjson.loads_object(command.body, MAX_VALUES)
        for row in _rows(body, "acks"):
            name = _either(row, "c", "consumerGroup")
            yield Need(group(name), SUB)
            yield of_topic(normal_topic(_either(row, "t", "topic"), name), SUB)

    def __str__(self) -> str:
        return "each Group Sub; each Topic Sub"


@dataclass(frozen=True, slots=True)
class Assigned:
    """The group and the topic of a body that asks for the queues of a member."""

    def find(self, command: Command, own_cluster: str) -> Iterator[Need]:
        body = fastjson.loads_object(command.body, MAX_VALUES)
        yield Need(group(_text(body, "consumerGroup")), SUB)
        yield of_topic(_text(body, "topic"), SUB)

    def __str__(self) -> str:
        return "Group Sub; Topic Sub, of a retry topic its group"


@dataclass(frozen=True, slots=True)
class TopicList:
    """The topics of a body that makes several."""

    def find(self, command: Command, own_cluster: str) -> Iterator[Need]:
        body = fastjson.loads_object(command.body, MAX_VALUES)
        for row in _rows(body, "topicConfigList"):
            yield of_topic(_text(row, "topicName"), CREATE)

    def __str__(self) -> str:
        return "each Topic Create"


@dataclass(frozen=True, slots=True)
class GroupBody:
    """The group of a body, or the groups of a list in it."""

    actions: Actions
    field: str
    several: str = ""

    def find(self, command: Command, own_cluster: str) -> Iterator[Need]:
        body = fastjson.loads_object(command.body, MAX_VALUES)
        for row in _rows(body, self.several) if self.several else [body]:
            yield Need(group(_text(row, self.field)), self.actions)

    def __str__(self) -> str:
        return f"{'each ' if self.several else ''}Group {shown(self.actions)}"


def _rows(body: dict[Any, Any], name: str) -> list[dict[Any, Any]]:
    """A list of objects in a body, which may be missing. InvalidParameterError."""
    found = body.get(name)
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise InvalidParameterError(f"{name} is a list of objects")
    return found


def _either(row: dict[Any, Any], name: str, whole: str) -> str:
    """A text under its short name or its whole one, "" if it is missing: no ack then."""
    found = row.get(name, row.get(whole))
    return found if isinstance(found, str) else ""


def _text(row: dict[Any, Any], name: str) -> str:
    found = row.get(name)
    if not isinstance(found, str):
        raise InvalidParameterError(f"{name} is needed, a text")
    return found


@dataclass(frozen=True, slots=True)
class Row:
    """What one request needs; without parts nothing but a user."""

    parts: tuple[Part, ...] = ()
    stricter: str = ""
    """Where RocketMQ 5.5 asks for less, and why this does not."""
    of_message: Actions = frozenset()
    """Any one of these on the topic of the message that the request names by its offset. The broker
    checks it when it has read that message."""

    def find(self, command: Command, own_cluster: str) -> tuple[Need, ...]:
        """Each need once. InvalidParameterError for a body that cannot be read, or too many."""
        found: dict[Need, None] = {}
        for part in self.parts:
            for need in part.find(command, own_cluster):
                found[need] = None
                if len(found) > MAX_NEEDS:
                    raise InvalidParameterError(
                        f"a request names at most {MAX_NEEDS} topics and groups"
                    )
        return tuple(found)

    def __str__(self) -> str:
        message = [f"Topic of the message {shown(self.of_message)}"] if self.of_message else []
        return "; ".join([*map(str, self.parts), *message]) or "any user"


def resources(needs: Iterable[Need]) -> list[Resource]:
    return [need.resource for need in needs]
