"""Requests that show and change consumer groups. [AdminBrokerProcessor]"""

from __future__ import annotations

import logging
from typing import Any

from pyrmq.broker.bounds import OneByOne
from pyrmq.broker.requests import fields
from pyrmq.broker.tables.clients import ClientTable
from pyrmq.broker.tables.group_attributes import changed
from pyrmq.broker.tables.groups import Group, GroupTable, is_own
from pyrmq.broker.tables.offsets import OffsetTable
from pyrmq.engine import Command
from pyrmq.errors import (
    InvalidParameterError,
    ResponseError,
    ServiceNotAvailableError,
)
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.codes import ResponseCode
from pyrmq.model.names import check_consumer_group, check_group
from pyrmq.model.topic import MAX_QUEUES
from pyrmq.net import fastjson
from pyrmq.net.command import Response
from pyrmq.net.server.connection import Connection
from pyrmq.net.server.turns import in_turns

log = logging.getLogger(__name__)

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
MAX_TABLE = 15 << 20
"""Longest list of groups that fits into a frame."""
MAX_RETRIES = 1024
"""Most delays of a retry policy."""
_POLICIES = ("CUSTOMIZED", "EXPONENTIAL")


class GroupProcessor:
    def __init__(self, groups: GroupTable, offsets: OffsetTable, clients: ClientTable) -> None:
        self._groups = groups
        self._offsets = offsets
        self._clients = clients
        self._updates = OneByOne()

    async def update(self, connection: Connection, command: Command) -> Response:
        """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: the whole configuration of a group, which is in its
        file when this is answered. Its attributes stay as they are, but for those that it names.

        groupRetryPolicy is checked, kept and shown. It does not choose the delay of a message that
        is sent back: RocketMQ's brokers ignore it there as well (consumerSendMsgBack: level 3 plus
        the retries there were), it is for RocketMQ's proxies and their POP consumers.
        """
        if len(command.body) > MAX_BODY:
            raise InvalidParameterError(f"a group's configuration has at most {MAX_BODY} bytes")
        await self._change(connection, [_group_of(fastjson.loads_object(command.body))])
        return Response()

    async def update_list(self, connection: Connection, command: Command) -> Response:
        """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: all of the groups are made or changed, in one
        write of the file, or none."""
        groups = [_group_of(values) for values in fields.objects(command, "groupConfigList")]
        await self._change(connection, groups)
        return Response()

    async def _change(self, connection: Connection, groups: list[Group]) -> None:
        async with self._updates.all_alone(group.name for group in groups):
            known = {g.name: self._groups.groups.get(g.name) for g in groups}
            latest = dict(known)
            for group in groups:
                before = latest[group.name]
                has = None if before is None else before.values["attributes"]
                group.values["attributes"] = changed(has, group.values["attributes"])
                if before is not None:
                    group.keep_others(before)
                latest[group.name] = group
            try:
                new = await self._groups.change_all(groups)
            except OSError as e:
                what = f"group[{groups[0].name}]" if len(groups) == 1 else f"{len(groups)} groups"
                raise _unsaved(what, e, "Nothing is changed") from e
        for group in new:
            what = "makes" if known[group.name] is None else "changes"
            shown = fastjson.dumps(group.values).decode()
            log.info(
                "%s %s group %s",
                escape(connection.peer),
                what,
                escape(shown),
                extra=about(connection=connection.peer),
            )

    async def delete(self, connection: Connection, command: Command) -> Response:
        """DELETE_SUBSCRIPTIONGROUP: its configuration goes and, with cleanOffset, what it has
        consumed. An unknown group is no error, as in RocketMQ. Consumers that are still there make
        it again, if they may. Its retry and dead-letter topics are topics, and deleted as such."""
        name = fields.text(command, "groupName")
        check_group(name)
        if is_own(name):
            raise InvalidParameterError(f"the group[{name}] is the broker's own")
        async with self._updates.alone(name):
            try:
                gone = await self._groups.delete(name)
            except OSError as e:
                raise _unsaved(f"group[{name}]", e, "Nothing is deleted") from e
            self._clients.forget_group(name)
            cleaned = 0
            if fields.flag(command, "cleanOffset"):
                cleaned = self._offsets.remove_group(name)
                await self._offsets.forget(lambda _, group: group == name)
                try:
                    await self._offsets.save_if_changed()
                except OSError as e:
                    raise _unsaved(
                        f"group[{name}]", e, "It is deleted, its offsets are for now"
                    ) from e
        if gone or cleaned:
            log.info(
                "%s deletes group %s, and its offsets of %d topics",
                escape(connection.peer),
                escape(name),
                cleaned,
                extra=about(connection=connection.peer, group=name),
            )
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
        """GET_ALL_SUBSCRIPTIONGROUP_CONFIG: every group, without paging. Ours: with `onlyGroup`
        that one alone, with `onlyFields` only these members of each (their names with commas
        between them); RocketMQ's brokers know neither, and tell all."""
        only, named = command.ext.get("onlyGroup"), command.ext.get("onlyFields")
        wanted = None if named is None else set(named.split(","))
        groups = [g for g in self._groups.groups.values() if only in (None, g.name)]
        members: list[bytes] = []
        size = 0

        def add(group: Group) -> None:
            nonlocal size
            values = group.values
            if wanted is not None:
                values = {key: value for key, value in values.items() if key in wanted}
            members.append(fastjson.member(group.name, values))
            size += len(members[-1])
            if size > MAX_TABLE:
                raise ResponseError(
                    f"the groups have more than {MAX_TABLE} bytes: clients take no more",
                    ResponseCode.SYSTEM_ERROR,
                )

        await in_turns(groups, add)
        version = fastjson.dumps(self._groups.version.to_json())
        head = b'{"dataVersion":' + version + b',"forbiddenTable":{},"subscriptionGroupTable":{'
        return Response(body=head + b",".join(members) + b"}}")


def _group_of(values: dict[Any, Any]) -> Group:
    """A SubscriptionGroupConfig. InvalidParameterError."""
    name = values.get("groupName")
    if not isinstance(name, str):
        raise InvalidParameterError("groupName is needed")
    check_consumer_group(name)
    _check(values)
    return Group(name, {str(key): value for key, value in values.items()})


def _unsaved(what: str, error: OSError, outcome: str) -> ServiceNotAvailableError:
    return ServiceNotAvailableError(f"{what} cannot be saved: {error.strerror}. {outcome}")


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
    _check_policy(values.get("groupRetryPolicy"))


def _check_policy(policy: Any) -> None:
    """The same for a GroupRetryPolicy: delays in ms. [GroupRetryPolicy]"""
    if policy is None:
        return
    if not isinstance(policy, dict) or policy.get("type", _POLICIES[0]) not in _POLICIES:
        raise InvalidParameterError(f"groupRetryPolicy has a type, {' or '.join(_POLICIES)}")
    growing = policy.get("exponentialRetryPolicy") or {}
    listed = policy.get("customizedRetryPolicy") or {}
    if not isinstance(growing, dict) or not isinstance(listed, dict):
        raise InvalidParameterError("the policies of groupRetryPolicy are objects")
    delays = listed.get("next", [1])
    if not isinstance(delays, list) or not 0 < len(delays) <= MAX_RETRIES:
        raise InvalidParameterError(f"next of a retry policy is a list of 1 to {MAX_RETRIES}")
    numbers = [growing.get(key, 1) for key in ("initial", "max", "multiplier")]
    if not all(type(n) is int and 0 < n < 1 << 62 for n in [*numbers, *delays]):
        raise InvalidParameterError("the numbers of a retry policy are positive")
