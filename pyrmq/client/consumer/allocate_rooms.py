"""Sharing queues by machine room. [AllocateMessageQueueByMachineRoom,
AllocateMachineRoomNearby]"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from pyrmq.client.consumer.allocate import Strategy, average
from pyrmq.client.option_checks import check_function
from pyrmq.errors import ClientError
from pyrmq.model.message import MessageQueue


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
