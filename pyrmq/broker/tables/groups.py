"""Consumer groups: config/subscriptionGroup.json. [SubscriptionGroupManager]"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pyrmq.broker.bounds import Creations
from pyrmq.broker.config.broker_config import LiveConfig
from pyrmq.broker.tables import config_file
from pyrmq.broker.tables.config_file import PersistentTable, Rows
from pyrmq.errors import InvalidParameterError, ResponseError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.codes import ResponseCode
from pyrmq.model.names import SYSTEM_GROUP_PREFIX, check_consumer_group
from pyrmq.model.topic import DataVersion, as_int
from pyrmq.net.clock import now_ms
from pyrmq.net.server.connection import Connection
from pyrmq.net.server.turns import in_turns

log = logging.getLogger(__name__)

PREDEFINED = (
    "TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP", "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL", "CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER", "CID_RMQ_SYS_TRANS",
)  # fmt: skip


LOOK = 64
"""Groups between two looks at the clock."""
_MEMBERS = ("autoCreated", "dataVersion", "forbiddenTable", "subscriptionGroupTable")
"""Of the file."""


def is_own(name: str) -> bool:
    """Whether a group is the broker's own."""
    return name in PREDEFINED or name.startswith(SYSTEM_GROUP_PREFIX)


class Group:
    """One group's configuration. Keys that this version does not use are kept as they were."""

    __slots__ = ("name", "values")

    def __init__(self, name: str, values: dict[str, Any] | None = None) -> None:
        self.name = name
        self.values: dict[str, Any] = {
            "attributes": {},
            "brokerId": 0,
            "consumeBroadcastEnable": True,
            "consumeEnable": True,
            "consumeFromMinEnable": True,
            "consumeMessageOrderly": False,
            "consumeTimeoutMinute": 15,
            "groupName": name,
            "groupRetryPolicy": {"type": "CUSTOMIZED"},
            "groupSysFlag": 0,
            "notifyConsumerIdsChangedEnable": True,
            "retryMaxTimes": 16,
            "retryQueueNums": 1,
            "whichBrokerWhenConsumeSlowly": 1,
            **(values or {}),
        }

    def keep_others(self, before: Group) -> None:
        """Takes over what `before` says and this version does not use, where this says nothing."""
        used = Group(self.name).values
        others = {key: value for key, value in before.values.items() if key not in used}
        self.values = others | self.values

    def enabled(self, key: str) -> bool:
        return self.values.get(key) is not False

    @property
    def retry_queue_nums(self) -> int:
        return as_int(self.values.get("retryQueueNums"), 1)

    @property
    def which_broker_when_slow(self) -> int:
        """Broker id that its consumers are sent to when they are far behind."""
        return as_int(self.values.get("whichBrokerWhenConsumeSlowly"), 1)

    @property
    def retry_max_times(self) -> int:
        return as_int(self.values.get("retryMaxTimes"), 16)


class GroupTable(PersistentTable):
    """All groups. The file also says which of them consumers made and when these were used last
    (`autoCreated`, which RocketMQ does not have)."""

    def __init__(
        self, path: Path, config: LiveConfig, on_changed: Callable[[], None] | None = None
    ) -> None:
        super().__init__(path, on_changed)
        self._config = config
        self.groups: dict[str, Group] = {}
        self._auto: dict[str, int] = {}
        """Groups that consumers made, and when they were used last, in ms."""
        self._used: set[str] = set()
        """Of these, those that were used since `note_used`."""
        self._unsaved: set[str] = set()
        """Groups that consumers made and the file does not have yet."""
        self._creations = Creations("groups", "maxNewGroupsPerConnection")
        self._rows = Rows(self._row)
        self._auto_rows = Rows(self._auto_row)
        value = self.load(*_MEMBERS)
        self.version = DataVersion.from_json(value.get("dataVersion"))
        forbidden = value.get("forbiddenTable")
        self._forbidden: dict[Any, Any] = forbidden if isinstance(forbidden, dict) else {}
        table = value.get("subscriptionGroupTable")
        kept: set[Any] = set()
        for name, values in (table if isinstance(table, dict) else {}).items():
            if isinstance(values, dict):
                self._put(Group(str(name), values))
            else:
                kept.add(name)
        if kept:
            self._rows.keep(value.rows("subscriptionGroupTable", kept))
            config_file.tell_kept(path, sorted(map(str, kept)))
        used = value.get("autoCreated")
        for name, last in (used if isinstance(used, dict) else {}).items():
            if name in self.groups:
                self._set_used(name, as_int(last, now_ms()))
        for name in PREDEFINED:
            if name not in self.groups:
                self._create(name)

    def _row(self, name: str) -> bytes:
        return config_file.row(name, self.groups[name].values)

    def _auto_row(self, name: str) -> bytes:
        return config_file.row(name, self._auto[name])

    def _put(self, group: Group) -> None:
        self._rows.change(group.name)
        self.groups[group.name] = group

    def _set_used(self, name: str, when: int) -> None:
        self._auto_rows.change(name)
        self._auto[name] = when

    def _bump(self) -> None:
        self.version.next(now_ms())
        self.changed()

    def _create(self, name: str) -> Group:
        group = Group(name)
        self._put(group)
        self._bump()
        return group

    async def change_all(self, groups: Iterable[Group]) -> list[Group]:
        """Makes or replaces groups, as an operator asks, in one write of the file; those of which
        anything is new. They do not expire from now on. OSError if that fails: the groups are as
        they were."""
        done: list[tuple[str, Group | None, Group | None, int | None]] = []
        for group in groups:
            known, used = self.groups.get(group.name), self._auto.get(group.name)
            if known is None or known.values != group.values or used is not None:
                self.update(group)
                done.append((group.name, group, known, used))
        await self._save_or_restore(*done)
        return [group for _, group, _, _ in done if group is not None]

    async def delete(self, name: str) -> bool:
        """Removes a group, also from the file; whether there was one. OSError: it still is."""
        known, used = self.groups.get(name), self._auto.get(name)
        if not self.remove(name):
            await self.save_if_changed()
            return False
        await self._save_or_restore((name, None, known, used))
        return True

    async def _save_or_restore(
        self, *changes: tuple[str, Group | None, Group | None, int | None]
    ) -> None:
        """Of each change the group's name, the group as it is now and as it was before, and when it
        was used: that is there again if the file cannot be written, unless the group has changed
        since."""
        try:
            await self.save_if_changed()
        except OSError:
            for name, now, before, used in reversed(changes):
                if self.groups.get(name) is not now:
                    continue
                if before is None:
                    self.remove(name)
                else:
                    self._put(before)
                    self._bump()
                if used is not None:
                    self._set_used(name, used)
            raise

    def update(self, group: Group) -> None:
        """Makes or replaces a group in the table."""
        self._forget_use(group.name)
        self._put(group)
        self._bump()

    def remove(self, name: str) -> bool:
        """Removes a group; whether there was one. [deleteSubscriptionGroupConfig]"""
        if name not in self.groups:
            return False
        self._rows.remove(name)
        del self.groups[name]
        self._forget_use(name)
        self._forbidden.pop(name, None)
        self._bump()
        return True

    def _forget_use(self, name: str) -> None:
        if name in self._auto:
            self._auto_rows.remove(name)
            del self._auto[name]
            self._used.discard(name)

    def find(self, name: str, by: Connection | None = None) -> Group | None:
        """The group, created if that is allowed; None if it neither exists nor may. `by` is the
        connection that uses it."""
        try:
            return self.require(name, by)
        except ResponseError as e:
            if self._creations.may_log():
                log.warning("group not created: %s", escape(e))
            return None

    def require(self, name: str, by: Connection | None = None) -> Group:
        """As `find`; SUBSCRIPTION_GROUP_NOT_EXIST, which says why, if there is none."""
        group = self.groups.get(name)
        if group is None:
            return self._create_for(name, by)
        if name in self._auto:
            self._used.add(name)
        return group

    def is_saved(self, name: str) -> bool:
        """Whether the file has the group, as far as a consumer has made it."""
        return name not in self._unsaved

    async def save_if_changed(self) -> None:
        made = set(self._unsaved)
        await super().save_if_changed()
        self._unsaved -= made

    def admit(self, name: str, by: Connection | None = None) -> Group:
        """The group as `require` would have it; it is not made. For what may yet be refused."""
        group = self.groups.get(name)
        if group is None:
            self._check_new(name, by)
            return Group(name)
        return group

    def existing(self, name: str) -> Group:
        """The group; SUBSCRIPTION_GROUP_NOT_EXIST if there is none yet, whoever may make it."""
        group = self.groups.get(name)
        if group is None:
            raise _no_group(name, "start a consumer of it, or create it (mqadmin updateSubGroup)")
        return group

    def _check_new(self, name: str, by: Connection | None) -> None:
        why = self._why_not(name, by)
        if why is not None:
            raise _no_group(name, why)

    def _create_for(self, name: str, by: Connection | None) -> Group:
        self._check_new(name, by)
        log.info("create subscription group %s", escape(name), extra=about(group=name))
        group = self._create(name)
        self._unsaved.add(name)
        self._set_used(name, now_ms())
        self._creations.count(by)
        return group

    def _why_not(self, name: str, by: Connection | None) -> str | None:
        """Why a consumer may not make a group."""
        config = self._config.now
        try:
            check_consumer_group(name)
        except InvalidParameterError as e:
            return str(e)
        may = config.auto_create_subscription_group or name.startswith(SYSTEM_GROUP_PREFIX)
        if not may:
            return "create it (autoCreateSubscriptionGroup=false)"
        most = config.max_auto_created_groups
        if len(self._auto) >= most:
            return f"consumers have made {len(self._auto)} already, maxAutoCreatedGroups={most}"
        return self._creations.why_not(by, config.max_new_groups_per_connection)

    async def note_used(self, others: Iterable[str] = ()) -> None:
        """Notes which groups were used since the last call: those that were asked for here, and
        `others`. Times are only as exact as expiring needs them, so that the file is not written
        all the time."""
        now, step = now_ms(), self.expire_step
        used, self._used = self._used, set()

        def note(name: str) -> None:
            known = self._auto.get(name)
            if known is not None and not 0 <= now - known < step:
                self._set_used(name, now)
                self.changed()

        await in_turns(list(used.union(others)), note, LOOK)

    @property
    def expire_step(self) -> int:
        """How exact times of use are, in ms."""
        return max(self._config.now.auto_created_group_expire_time // 16, 1)

    def auto_created(self) -> list[str]:
        """Groups that consumers made."""
        return list(self._auto)

    def is_unused(self, name: str) -> bool:
        """Whether a consumer made this group, and nobody has used it for
        autoCreatedGroupExpireTime."""
        limit, used = self._config.now.auto_created_group_expire_time, self._auto.get(name)
        if not limit or used is None or name in self._used or is_own(name):
            return False
        return used < now_ms() - limit - self.expire_step

    def to_json(self) -> dict[str, Any]:
        return {
            "autoCreated": self._auto_rows.freeze(),
            "dataVersion": self.version.to_json(),
            "forbiddenTable": self._forbidden,
            "subscriptionGroupTable": self._rows.freeze(),
        }


def _no_group(name: str, why: str) -> ResponseError:
    return ResponseError(
        f"subscription group [{name[:255]}] does not exist: {why}",
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
    )
