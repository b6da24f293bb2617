"""Sharing queues among the consumers of a group.

Each strategy takes all queues and all client ids, both sorted, and the own client id, and returns
the own queues. Every member computes the same split from the same lists.
`average` and `average_by_circle` stand in `pyrmq.model.allocate`: brokers assign queues by them
too.
[AllocateMessageQueueByConfig, AllocateMessageQueueConsistentHash, ConsistentHashRouter,
AllocateMessageQueueByMachineRoom, AllocateMachineRoomNearby]
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from hashlib import md5

from pyrmq.client.checks import check_function, check_kind, check_whole
from pyrmq.errors import ClientError
from pyrmq.model.allocate import average as average
from pyrmq.model.allocate import average_by_circle as average_by_circle
from pyrmq.model.message import MessageQueue
from pyrmq.model.names import RETRY_PREFIX

Strategy = Callable[[Sequence[MessageQueue], Sequence[str], str], list[MessageQueue]]


BROKER_STRATEGIES: dict[Strategy, str] = {average: "AVG", average_by_circle: "AVG_BY_CIRCLE"}
"""Those that brokers know, with their names there."""


class Configured:
    """The given queues, whoever else is in the group (CONFIG). The user must give each queue to
    only one member. `queues` are those of all topics; missing ones are ignored. The group's retry
    topic is shared evenly."""

    def __init__(self, queues: Iterable[MessageQueue]) -> None:
        self._queues = frozenset(queues)
        for queue in self._queues:
            check_kind("one of queues", queue, (MessageQueue,), "a MessageQueue")
        self._topics = {queue.topic for queue in self._queues}

    def renamed(self, name: Callable[[str], str]) -> Configured:
        """The same queues with other topic names."""
        return Configured(replace(queue, topic=name(queue.topic)) for queue in self._queues)

    def __call__(
        self, queues: Sequence[MessageQueue], ids: Sequence[str], own: str
    ) -> list[MessageQueue]:
        topic = queues[0].topic if queues else ""
        if topic.startswith(RETRY_PREFIX) and topic not in self._topics:
            return average(queues, ids, own)
        return [queue for queue in queues if queue in self._queues]


VIRTUAL_NODES = 10


class ConsistentHash:
    """CONSISTENT_HASH, as in Java's client; each member has `virtual_nodes` places on the ring. The
    Go client has another ring, so do not mix both in one group."""

    def __init__(self, virtual_nodes: int = VIRTUAL_NODES) -> None:
        check_whole("virtual_nodes", virtual_nodes, 1, 1000)
        self._nodes = virtual_nodes
        self._ring: tuple[tuple[str, ...], list[int], dict[int, str]] = ((), [], {})

    def __call__(
        self, queues: Sequence[MessageQueue], ids: Sequence[str], own: str
    ) -> list[MessageQueue]:
        """Empty if `own` is not among the ids."""
        if own not in ids:
            return []
        places, owners = self._ring_of(tuple(ids))
        return [q for q in queues if owners[_next(places, ring_hash(queue_text(q)))] == own]

    def _ring_of(self, ids: tuple[str, ...]) -> tuple[list[int], dict[int, str]]:
        """If hashes are equal, the last one counts."""
        if self._ring[0] != ids:
            owners = {ring_hash(f"{i}-{n}"): i for i in ids for n in range(self._nodes)}
            self._ring = ids, sorted(owners), owners
        return self._ring[1], self._ring[2]


def ring_hash(text: str) -> int:
    """A place on the ring: 32 bits of MD5."""
    return int.from_bytes(md5(text.encode(), usedforsecurity=False).digest()[:4], "big")


def queue_text(queue: MessageQueue) -> str:
    """The text of a MessageQueue in Java."""
    return (
        f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, "
        f"queueId={queue.queue_id}]"
    )


def _next(places: list[int], at: int) -> int:
    """The first place at or behind `at` on the ring."""
    index = bisect_left(places, at)
    return places[index] if index < len(places) else places[0]


class MachineRoom:
    """Only queues of brokers called `room@name`, of the given rooms (MACHINE_ROOM): each member
    gets an equal number of consecutive queues, and each of the first members one of the rest."""

    def __init__(self, rooms: Iterable[str]) -> None:
        if isinstance(rooms, str):
            raise ClientError(f"rooms is the text {rooms!r:.80}; a list or set of names is needed")
        self._rooms = frozenset(rooms)
        if not self._rooms or not all(isinstance(room, str) and room for room in self._rooms):
            raise ClientError("rooms must be names of machine rooms, at least one")

    def __call__(
        self, queues: Sequence[MessageQueue], ids: Sequence[str], own: str
    ) -> list[MessageQueue]:
        """Empty if `own` is not among the ids."""
        if own not in ids:
            return []
        ours = [q for q in queues if self._is_ours(q.broker_name)]
        share, rest = divmod(len(ours), len(ids))
        i = ids.index(own)
        mine = ours[share * i : share * (i + 1)]
        if i < rest:
            mine.append(ours[share * len(ids) + i])
        return mine

    def _is_ours(self, broker_name: str) -> bool:
        parts = broker_name.split("@")
        return len(parts) == 2 and parts[0] in self._rooms


class MachineRoomNearby:
    """Gives queues to the members in their own room, and queues of rooms without members to all
    (MACHINE_ROOM_NEARBY). `room_of_queue` and `room_of_client` return the room of a queue and of a
    client id; `inner` shares the queues of a room."""

    def __init__(
        self,
        room_of_queue: Callable[[MessageQueue], str],
        room_of_client: Callable[[str], str],
        inner: Strategy = average,
    ) -> None:
        wanted = "a function that gives the name of a room"
        self._room_of_queue = check_function("room_of_queue", room_of_queue, wanted)
        self._room_of_client = check_function("room_of_client", room_of_client, wanted)
        self._inner: Strategy = check_function("inner", inner, "a function such as pyrmq.average")

    def __call__(
        self, queues: Sequence[MessageQueue], ids: Sequence[str], own: str
    ) -> list[MessageQueue]:
        """Empty if `own` is not among the ids. Raises ClientError for a queue or client without a
        room."""
        if own not in ids:
            return []
        of_rooms: dict[str, list[MessageQueue]] = defaultdict(list)
        for queue in queues:
            of_rooms[self._room(self._room_of_queue, queue)].append(queue)
        members: dict[str, list[str]] = defaultdict(list)
        for client_id in ids:
            members[self._room(self._room_of_client, client_id)].append(client_id)
        here = self._room(self._room_of_client, own)
        mine: list[MessageQueue] = []
        if here in of_rooms:
            mine += self._inner(of_rooms[here], members[here], own)
        for room in sorted(of_rooms.keys() - members.keys()):
            mine += self._inner(of_rooms[room], ids, own)
        return mine

    @staticmethod
    def _room(function: Callable[..., str], of: object) -> str:
        room = function(of)
        if not isinstance(room, str) or not room:
            raise ClientError(f"{of} is in no machine room: {room!r:.80}")
        return room
