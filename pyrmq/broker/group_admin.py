"""Requests that show and change consumer groups. [AdminBrokerProcessor]"""

from __future__ import annotations

import time
from typing import Any

import trio

from pyrmq.broker import fields
from pyrmq.broker.groups import Group, GroupTable
from pyrmq.broker.rows import TURN
from pyrmq.engine import Command
from pyrmq.errors import InvalidParameterError, ResponseError, ServiceNotAvailableError
from pyrmq.model.codes import ResponseCode
from pyrmq.model.names import check_group
from pyrmq.model.topic import MAX_QUEUES
from pyrmq.net import fastjson
from pyrmq.net.command import Response
from pyrmq.net.connection import Connection

MAX_BODY = 16_384
"""Longest configuration of a group, bytes."""
_NUMBERS = {
    "brokerId": 1 << 63,
    "consumeTimeoutMinute": 1 << 31,
    "groupSysFlag": 1 << 31,
    "retryMaxTimes": 1 << 31,
    "retryQueueNums": MAX_QUEUES + 1,
    "whichBrokerWhenConsumeSlowly": 1 << 63,
}
"""Keys with numbers, and what they stay below."""
_FLAGS = (
    "consumeBroadcastEnable", "consumeEnable", "consumeFromMinEnable", "consumeMessageOrderly",
    "notifyConsumerIdsChangedEnable",
)  # fmt: skip


class GroupProcessor:
    def __init__(self, groups: GroupTable) -> None:
        self._groups = groups

    async def update(self, connection: Connection, command: Command) -> Response:
        """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: the whole configuration of a group, which is in its
        file when this is answered."""
        if len(command.body) > MAX_BODY:
            raise InvalidParameterError(f"a group's configuration has at most {MAX_BODY} bytes")
        values = fastjson.loads_object(command.body)
        name = values.get("groupName")
        if not isinstance(name, str):
            raise InvalidParameterError("groupName is needed")
        check_group(name)
        _check(values)
        self._groups.update(Group(name, {str(key): value for key, value in values.items()}))
        try:
            await self._groups.save_if_changed()
        except OSError as e:
            raise ServiceNotAvailableError(f"group[{name}] cannot be saved: {e.strerror}") from e
        return Response()

    def get(self, connection: Connection, command: Command) -> Response:
        """GET_SUBSCRIPTIONGROUP_CONFIG."""
        name = fields.text(command, "group")
        group = self._groups.groups.get(name)
        if group is None:
            raise ResponseError(
                f"No group in this broker. group: {name[:255]}",
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
            )
        return Response(body=fastjson.dumps(group.values))

    async def all(self, connection: Connection, command: Command) -> Response:
        """GET_ALL_SUBSCRIPTIONGROUP_CONFIG: every group, without paging."""
        members = []
        end = time.monotonic() + TURN
        for name, group in list(self._groups.groups.items()):
            members.append(fastjson.member(name, group.values))
            if time.monotonic() >= end:
                await trio.lowlevel.checkpoint()
                end = time.monotonic() + TURN
        version = fastjson.dumps(self._groups.version.to_json())
        head = b'{"dataVersion":' + version + b',"forbiddenTable":{},"subscriptionGroupTable":{'
        return Response(body=head + b",".join(members) + b"}}")


def _check(values: dict[Any, Any]) -> None:
    """InvalidParameterError for values of the wrong type, out of range, or of what is not there."""
    for key, limit in _NUMBERS.items():
        value = values.get(key, 0)
        low = -1 if key == "retryMaxTimes" else 0
        if type(value) is not int or not low <= value < limit:
            raise InvalidParameterError(f"{key} must be a number from {low} to {limit - 1}")
    for key in _FLAGS:
        if type(values.get(key, True)) is not bool:
            raise InvalidParameterError(f"{key} must be true or false")
    if values.get("attributes"):
        raise InvalidParameterError("attributes of groups are not supported by this version")
