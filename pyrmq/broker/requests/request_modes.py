"""How groups get the messages of a topic: config/messageRequestMode.json. Here every group pulls.
[MessageRequestModeManager]"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyrmq.broker.requests.bounded import Bounded
from pyrmq.broker.tables import config_file
from pyrmq.broker.tables.tables import PersistentTable
from pyrmq.engine import Command
from pyrmq.errors import InvalidParameterError, NoPermissionError, ServiceNotAvailableError
from pyrmq.model.names import RETRY_PREFIX, check_group, check_topic
from pyrmq.net import fastjson
from pyrmq.net.command import Response
from pyrmq.net.server.answers import Elsewhere
from pyrmq.net.server.connection import Connection

MAX_BODY = 4096
MAX_ROWS = 100_000
WAITING = 16
_MAP = "messageRequestModeMap"


class RequestModes(PersistentTable):
    """By topic and group what an operator set."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        found = self.load(_MAP).get(_MAP)
        rows = {str(t): row for t, row in (found if isinstance(found, dict) else {}).items()}
        self._modes: dict[str, dict[str, Any]] = {
            topic: {str(group): row for group, row in groups.items()}
            for topic, groups in rows.items()
            if isinstance(groups, dict)
        }
        self._kept = {topic: row for topic, row in rows.items() if topic not in self._modes}
        config_file.tell_kept(path, self._kept)
        self._changes = Bounded("changes of request modes", 1, WAITING)

    def to_json(self) -> dict[str, Any]:
        return {_MAP: self._kept | self._modes}

    def all(self, connection: Connection, command: Command) -> Response:
        """GET_ALL_MESSAGE_REQUEST_MODE."""
        return Response(body=fastjson.dumps(self.to_json()))

    def set(self, connection: Connection, command: Command) -> Elsewhere:
        """SET_MESSAGE_REQUEST_MODE: PULL is kept, POP is refused."""
        return self._changes.begin(self._set(command.body))

    async def _set(self, body: bytes) -> Response:
        if len(body) > MAX_BODY:
            raise InvalidParameterError(f"a request mode has at most {MAX_BODY} bytes")
        value = fastjson.loads_object(body)
        topic, group = str(value.get("topic", "")), str(value.get("consumerGroup", ""))
        check_topic(topic)
        check_group(group)
        if topic.startswith(RETRY_PREFIX):
            raise NoPermissionError("retry topic is not allowed to set mode")
        mode = value.get("mode", "PULL")
        if mode != "PULL":
            raise InvalidParameterError(
                f"mode {str(mode)[:16]!r} is not supported: POP consumption is not there, every "
                "group pulls"
            )
        if sum(map(len, self._modes.values())) >= MAX_ROWS:
            raise ServiceNotAvailableError(f"there are {MAX_ROWS} request modes already")
        row = {"consumerGroup": group, "mode": "PULL", "popShareQueueNum": 0, "topic": topic}
        self._modes.setdefault(topic, {})[group] = row
        self.changed()
        try:
            await self.save_if_changed()
        except OSError as e:
            raise ServiceNotAvailableError(f"the mode cannot be saved: {e.strerror}") from e
        return Response()
