"""Where a consumer is to pull next: at the master, or at a slave.
[DefaultPullMessageResultHandler]
"""

from __future__ import annotations

from collections.abc import Callable

from pyrmq.broker.config.broker_config import LiveConfig
from pyrmq.broker.tables.groups import GroupTable
from pyrmq.engine import Store
from pyrmq.errors import SystemBusyError
from pyrmq.model.codes import ResponseCode
from pyrmq.net.command import Response

MASTER = 0


class Suggestion:
    """Fills in suggestWhichBrokerId. `has_master`: whether a slave's master is there."""

    def __init__(
        self,
        config: LiveConfig,
        store: Store,
        groups: GroupTable,
        has_master: Callable[[], bool],
    ) -> None:
        self._config = config
        self._store = store
        self._groups = groups
        self._has_master = has_master

    @property
    def may_grant(self) -> bool:
        """Whether the engine may answer pulls by itself: it suggests the master."""
        return not self._config.now.is_slave

    def check(self) -> None:
        """SystemBusyError where a slave serves no pulls."""
        config = self._config.now
        if config.is_slave and not config.slave_read_enable:
            raise SystemBusyError(
                "pulls are refused by this slave: slaveReadEnable is false; pull from the master"
            )

    def fill(self, response: Response, group: str, topic: str, queue_id: int) -> Response:
        """`response`, with the broker to pull from next in it. A slave whose master is there lets
        the master say that there is nothing."""
        config = self._config.now
        code, broker_id = response.code, MASTER
        if config.is_slave and not self._has_master():
            broker_id = config.broker_id
        elif config.slave_read_enable and self._is_slow(response, topic, queue_id):
            broker_id = self._slow_broker(group)
        elif config.is_slave and code != ResponseCode.SUCCESS:
            code = ResponseCode.PULL_RETRY_IMMEDIATELY
        if broker_id == MASTER and code == response.code:
            return response
        ext = {**response.ext, "suggestWhichBrokerId": broker_id}
        return Response(code, response.remark, ext, response.body)

    def _slow_broker(self, group: str) -> int:
        settings = self._groups.groups.get(group)
        return 1 if settings is None else settings.which_broker_when_slow

    def _is_slow(self, response: Response, topic: str, queue_id: int) -> bool:
        """Whether what was read is further behind than accessMessageInMemoryMaxRatio."""
        if response.code != ResponseCode.SUCCESS:
            return False
        last = int(response.ext["nextBeginOffset"]) - 1
        return self._store.in_memory(topic, queue_id, last, wait=False) is False
