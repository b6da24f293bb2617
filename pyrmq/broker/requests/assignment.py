"""Queues that the broker assigns, and how groups get their messages: QUERY_ASSIGNMENT,
SET_MESSAGE_REQUEST_MODE, GET_ALL_MESSAGE_REQUEST_MODE. [QueryAssignmentProcessor,
MessageRequestModeManager]

config/messageRequestMode.json has the mode of each topic and group that an operator has set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyrmq.broker.bounds import Bounded
from pyrmq.broker.config.broker_config import LiveConfig
from pyrmq.broker.config.pop_keys import MODES
from pyrmq.broker.pop.routes import Routes
from pyrmq.broker.tables import config_file
from pyrmq.broker.tables.clients import BROADCASTING, ClientTable
from pyrmq.broker.tables.config_file import PersistentTable
from pyrmq.broker.tables.groups import GroupTable
from pyrmq.broker.tables.topics import TopicTable
from pyrmq.engine import Command
from pyrmq.errors import InvalidParameterError, NoPermissionError, ServiceNotAvailableError
from pyrmq.model.allocate import average, average_by_circle
from pyrmq.model.message import MessageQueue
from pyrmq.model.names import RETRY_PREFIX, check_group, check_topic
from pyrmq.model.topic import as_int
from pyrmq.net import fastjson
from pyrmq.net.command import Response
from pyrmq.net.server.answers import Elsewhere
from pyrmq.net.server.connection import Connection

PULL, POP = MODES
STRATEGIES = {"AVG": average, "AVG_BY_CIRCLE": average_by_circle}
MAX_BODY = 4096
MAX_MODES = 100_000
WAITING = 16
ASKING, ASKS_WAIT = 64, 10_000
"""Assignments that are made at a time, and that wait for their turn."""
_MODES = "messageRequestModeMap"


@dataclass(frozen=True, slots=True)
class Mode:
    """How members of a group get the messages of a topic."""

    name: str
    share: int
    """With POP: members whose queues a member pops as well; 0 and less: all of them."""


class RequestModes(PersistentTable):
    """By topic and group what an operator set."""

    def __init__(
        self, path: Path, live: LiveConfig, topics: TopicTable, groups: GroupTable
    ) -> None:
        super().__init__(path)
        self._live = live
        self._topics = topics
        self._groups = groups
        self._modes: dict[str, dict[str, Any]] = {}
        self._kept: dict[str, Any] = {}
        self.follow(self.load(_MODES))
        config_file.tell_kept(path, self._kept)
        self._changes = Bounded("changes of request modes", 1, WAITING)

    def follow(self, content: Mapping[Any, Any]) -> None:
        """Takes what a file says, or a slave's master."""
        found = content.get(_MODES)
        rows = {str(t): row for t, row in (found if isinstance(found, dict) else {}).items()}
        self._modes = {
            topic: {str(group): row for group, row in groups.items()}
            for topic, groups in rows.items()
            if isinstance(groups, dict)
        }
        self._kept = {topic: row for topic, row in rows.items() if topic not in self._modes}

    def to_json(self) -> dict[str, Any]:
        return {_MODES: self._kept | self._modes}

    def mode(self, topic: str, group: str) -> Mode:
        """What was set for a group, or what the configuration says. Retry topics are pulled."""
        row = self._modes.get(topic, {}).get(group)
        if isinstance(row, dict) and row.get("mode") in MODES:
            return Mode(row["mode"], as_int(row.get("popShareQueueNum"), 0))
        config = self._live.now
        if topic.startswith(RETRY_PREFIX) or config.default_message_request_mode == PULL:
            return Mode(PULL, 0)
        return Mode(POP, config.default_pop_share_queue_num)

    def pulling(self) -> list[tuple[str, str]]:
        """Topics and groups that an operator has told to pull."""
        return [
            (topic, group)
            for topic, groups in self._modes.items()
            for group, row in groups.items()
            if isinstance(row, dict) and row.get("mode") == PULL
        ]

    def all(self, connection: Connection, command: Command) -> Response:
        """GET_ALL_MESSAGE_REQUEST_MODE."""
        return Response(body=fastjson.dumps(self.to_json()))

    def set(self, connection: Connection, command: Command) -> Elsewhere:
        """SET_MESSAGE_REQUEST_MODE."""
        return self._changes.begin(self._set(command.body, connection))

    async def _set(self, body: bytes, connection: Connection) -> Response:
        if len(body) > MAX_BODY:
            raise InvalidParameterError(f"a request mode has at most {MAX_BODY} bytes")
        value = fastjson.loads_object(body)
        topic, group = str(value.get("topic", "")), str(value.get("consumerGroup", ""))
        if topic.startswith(RETRY_PREFIX):
            raise NoPermissionError("retry topic is not allowed to set mode")
        check_topic(topic)
        check_group(group)
        mode, share = value.get("mode", PULL), value.get("popShareQueueNum", 0)
        if mode not in MODES:
            raise InvalidParameterError(f"mode {str(mode)[:16]!r} is neither PULL nor POP")
        if type(share) is not int or not -1 <= share < 1 << 31:
            raise InvalidParameterError("popShareQueueNum is a number, -1 or more")
        self._topics.require(topic)
        self._groups.require(group, connection)
        is_new = group not in self._modes.get(topic, {})
        if is_new and sum(map(len, self._modes.values())) >= MAX_MODES:
            raise ServiceNotAvailableError(f"there are {MAX_MODES} request modes already")
        row = {"consumerGroup": group, "mode": mode, "popShareQueueNum": share, "topic": topic}
        groups = self._modes.setdefault(topic, {})
        before = groups.get(group)
        groups[group] = row
        self.changed()
        try:
            await self.save_if_changed()
        except OSError as e:
            if before is None:
                del groups[group]
            else:
                groups[group] = before
            raise ServiceNotAvailableError(f"the mode cannot be saved: {e.strerror}") from e
        return Response()


class Assignments:
    """Answers QUERY_ASSIGNMENT: which queues a member of a group reads, and in which mode."""

    def __init__(
        self, live: LiveConfig, routes: Routes, clients: ClientTable, modes: RequestModes
    ) -> None:
        self._live = live
        self._routes = routes
        self._clients = clients
        self._modes = modes
        self._asks = Bounded("queries of assignments", ASKING, ASKS_WAIT)

    def query(self, connection: Connection, command: Command) -> Elsewhere:
        body = fastjson.loads_object(command.body)
        topic, group = _text(body, "topic"), _text(body, "consumerGroup")
        client_id = _text(body, "clientId")
        model = body.get("messageModel", "CLUSTERING")
        strategy = str(body.get("strategyName", ""))
        broadcasts = model in (BROADCASTING, 0)
        return self._asks.begin(self._query(topic, group, client_id, broadcasts, strategy))

    async def _query(
        self, topic: str, group: str, client_id: str, broadcasts: bool, strategy: str
    ) -> Response:
        queues = await self._routes.queues(topic)
        mode = self._modes.mode(topic, group)
        mine = None
        if queues is not None:
            if broadcasts or not self._live.now.server_load_balancer_enable:
                mine = list(queues)
            elif (members := self._clients.consumers.get(group)) is not None:
                mine = assigned(queues, members.client_ids(), client_id, strategy, mode)
        if mine is None:  # the client keeps what it has
            return Response(body=b"{}")
        rows = [{"messageQueue": queue.to_json(), "mode": mode.name} for queue in mine]
        return Response(body=fastjson.dumps({"messageQueueAssignments": rows}))


def assigned(
    queues: Sequence[MessageQueue], ids: Sequence[str], own: str, strategy: str, mode: Mode
) -> list[MessageQueue] | None:
    """The queues of one member, each once. None for a strategy that is not known. Queues and ids
    are sorted."""
    allocate = STRATEGIES.get(strategy)
    if allocate is None:
        return None
    if mode.name == PULL:
        return allocate(queues, ids, own)
    if mode.share <= 0 or mode.share >= len(ids) - 1:
        # Each broker as one entry: any of its queues.
        return list(dict.fromkeys(replace(queue, queue_id=-1) for queue in queues))
    if own not in ids or not queues:
        return []
    index = ids.index(own)
    if len(ids) > len(queues):
        return [queues[index % len(queues)]]
    shared = [ids[(index + n) % len(ids)] for n in range(mode.share + 1)]
    return list(dict.fromkeys(q for one in shared for q in allocate(queues, ids, one)))


def _text(body: dict[Any, Any], name: str) -> str:
    found = body.get(name)
    if not isinstance(found, str) or not found or len(found) > 255:
        raise InvalidParameterError(f"{name} of the body is a text of 1 to 255 characters")
    return found
