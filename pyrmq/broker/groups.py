"""Consumer groups: config/subscriptionGroup.json. [SubscriptionGroupManager]"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from pyrmq.broker import config_file
from pyrmq.broker.live_config import LiveConfig
from pyrmq.broker.rows import Rows
from pyrmq.broker.tables import PersistentTable
from pyrmq.errors import InvalidParameterError, ResponseError
from pyrmq.escape import escape
from pyrmq.model.codes import ResponseCode
from pyrmq.model.names import SYSTEM_GROUP_PREFIX, check_group
from pyrmq.model.topic import DataVersion, as_int
from pyrmq.net.clock import now_ms

log = logging.getLogger(__name__)

MAX_AUTO_GROUPS = 20_000
"""Groups after which clients make no more by using them."""

PREDEFINED = (
    "TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP", "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL", "CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER", "CID_RMQ_SYS_TRANS",
)  # fmt: skip


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

    def enabled(self, key: str) -> bool:
        return self.values.get(key) is not False

    @property
    def retry_queue_nums(self) -> int:
        return as_int(self.values.get("retryQueueNums"), 1)

    @property
    def retry_max_times(self) -> int:
        return as_int(self.values.get("retryMaxTimes"), 16)


class GroupTable(PersistentTable):
    def __init__(self, path: Path, config: LiveConfig) -> None:
        super().__init__(path)
        self._config = config
        self.groups: dict[str, Group] = {}
        self._rows = Rows(self._row)
        value = config_file.load(path)
        self.version = DataVersion.from_json(value.get("dataVersion"))
        self._forbidden = value.get("forbiddenTable")
        table = value.get("subscriptionGroupTable")
        for name, values in (table if isinstance(table, dict) else {}).items():
            if isinstance(values, dict):
                self._put(Group(str(name), values))
        for name in PREDEFINED:
            if name not in self.groups:
                self._create(name)

    def _row(self, name: str) -> bytes:
        return config_file.row(name, self.groups[name].values)

    def _put(self, group: Group) -> None:
        self._rows.change(group.name)
        self.groups[group.name] = group

    def _create(self, name: str) -> Group:
        group = Group(name)
        self._put(group)
        self.version.next(now_ms())
        self.changed()
        return group

    def update(self, group: Group) -> None:
        """Makes or replaces a group, as an operator asks."""
        self._put(group)
        self.version.next(now_ms())
        self.changed()

    def find(self, name: str) -> Group | None:
        """The group, created if that is allowed; None if it neither exists nor may."""
        group = self.groups.get(name)
        if group is None and (
            self._config.now.auto_create_subscription_group or name.startswith(SYSTEM_GROUP_PREFIX)
        ):
            try:
                check_group(name)
            except InvalidParameterError as e:
                log.warning("group not created: %s", escape(e))
                return None
            if len(self.groups) >= MAX_AUTO_GROUPS:
                log.error(
                    "group %s not created: there are %d already", escape(name), len(self.groups)
                )
                return None
            log.info("create subscription group %s", escape(name))
            group = self._create(name)
        return group

    def require(self, name: str) -> Group:
        """As `find`; SUBSCRIPTION_GROUP_NOT_EXIST if there is none."""
        group = self.find(name)
        if group is None:
            raise ResponseError(
                f"subscription group not exist, {name[:255]}",
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
            )
        return group

    def to_json(self) -> dict[str, Any]:
        return {
            "dataVersion": self.version.to_json(),
            "forbiddenTable": self._forbidden if isinstance(self._forbidden, dict) else {},
            "subscriptionGroupTable": self._rows.freeze(),
        }
