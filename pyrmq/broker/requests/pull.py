"""PULL_MESSAGE and LITE_PULL_MESSAGE: checks a pull, and answers it or has it parked.
[PullMessageProcessor, DefaultPullMessageResultHandler]"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import trio

from pyrmq.broker.config.broker_config import LiveConfig
from pyrmq.broker.requests import fields
from pyrmq.broker.requests.checked_pull import NO_MATCH, CheckedPull, answer_of
from pyrmq.broker.stats.broker_stats import BrokerStats
from pyrmq.broker.tables.clients import BROADCASTING, ClientTable
from pyrmq.broker.tables.consumer_filters import ConsumerFilters
from pyrmq.broker.tables.filter_data import check_kind, sql_filter
from pyrmq.broker.tables.groups import GroupTable
from pyrmq.broker.tables.offset_file import QueueOfGroup
from pyrmq.broker.tables.offsets import OffsetTable
from pyrmq.broker.tables.topics import TopicTable, no_topic
from pyrmq.engine import Command, PullGrants, SqlFilter, Store
from pyrmq.errors import (
    InvalidParameterError,
    NoPermissionError,
    SubscriptionError,
    SystemBusyError,
)
from pyrmq.model.codes import RequestCode, ResponseCode
from pyrmq.model.names import OWN_OFFSETS
from pyrmq.model.subscription import SQL92, TAG, Subscription
from pyrmq.model.topic import PERM_READ
from pyrmq.net.command import Response
from pyrmq.net.server.answers import Elsewhere, Park
from pyrmq.net.server.connection import Connection
from pyrmq.net.server.line import Line

COMMIT_OFFSET = 0x1
SUSPEND = 0x2
SUBSCRIPTION = 0x4
MASTER = 0
"""The master's broker id."""
DISK_READERS = 16
"""Pulls that wait for the disk at a time, each in a thread of its own; more wait for their turn."""
MAX_COUNT = 256


class Suggestion:
    """Fills in suggestWhichBrokerId: where a consumer is to pull next, at the master or at a slave.
    `has_master`: whether a slave's master is there."""

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


class PullProcessor:
    """Answers pulls, or has them parked until a message comes."""

    def __init__(
        self,
        config: LiveConfig,
        store: Store,
        topics: TopicTable,
        groups: GroupTable,
        clients: ClientTable,
        offsets: OffsetTable,
        stats: BrokerStats,
        grants: PullGrants,
        filters: ConsumerFilters,
        suggestion: Suggestion,
    ) -> None:
        self._config = config
        self._grants = grants
        self._filters = filters
        self._suggestion = suggestion
        self._store = store
        self._topics = topics
        self._groups = groups
        self._clients = clients
        self._offsets = offsets
        self._stats = stats
        self._readers = trio.CapacityLimiter(DISK_READERS)
        self._threads = trio.CapacityLimiter(DISK_READERS)
        self.line = Line()
        """Pulls that wait for one of the readers."""

    def __call__(self, connection: Connection, command: Command) -> Response | Park | Elsewhere:
        self._suggestion.check()
        group = fields.text(command, "consumerGroup")
        topic = fields.text(command, "topic")
        queue_id = fields.int32(command, "queueId")
        offset = fields.int64(command, "queueOffset")
        sys_flag = fields.int32(command, "sysFlag")
        count = min(max(fields.int32(command, "maxMsgNums"), 1), MAX_COUNT)
        commit = fields.int64(command, "commitOffset") if sys_flag & COMMIT_OFFSET else -1
        filtered = partial(self._filtered, connection, command.code, group, topic, queue_id)
        sub, sql = filtered(partial(self._subscription, command, group, topic, sys_flag))
        asked = fields.int64(command, "suspendTimeoutMillis", 0) if sys_flag & SUSPEND else 0
        # What may wait keeps no part of the request: its frame may have 16 MiB.
        if sys_flag & SUBSCRIPTION:
            again = partial(_stated, sub.essence())
        else:
            version = fields.int64(command, "subVersion", 0)
            again = partial(self._of_members, group, topic, version)
        check = partial(filtered, again)
        key = (topic, group, queue_id)
        if self._offsets.resets and (moved := self._offsets.moved(key, offset)) is not None:
            return self._moved(topic, queue_id, moved)
        pull = CheckedPull(
            self._store,
            topic,
            queue_id,
            offset,
            count,
            sub.tag_codes,
            sql,
            group,
            self._stats,
            connection,
            self._grants,
            self._grants.generation(),
            check,
            len(sub.sub_string) if sql is not None else 0,
        )
        # An expression may take long: not on the event loop.
        response = pull.read_memory() if pull.sql is None else None
        if commit >= 0:
            self._offsets.commit_with_pull(topic, group, queue_id, commit)
        if response is None:
            return Elsewhere(self._from_disk(key, asked, pull))
        may_grant = group not in OWN_OFFSETS and self._suggestion.may_grant
        if response.code == ResponseCode.SUCCESS and may_grant:
            connection.session.grant_pull(command, topic, group, queue_id, sub.tag_codes)
        return self._answered(key, asked, pull, response)

    def _moved(self, topic: str, queue_id: int, offset: int) -> Response:
        """An operator has moved the group's offset: its next pull begins there."""
        low, high = self._store.queue_range(topic, queue_id)
        return answer_of(NO_MATCH, offset, low, high, ResponseCode.PULL_OFFSET_MOVED)

    async def _from_disk(self, key: QueueOfGroup, asked: int, pull: CheckedPull) -> Response | Park:
        place = self.line.join()
        try:
            await self._readers.acquire()
        finally:
            self.line.leave(place)
        try:
            got = await trio.to_thread.run_sync(pull.read_disk, limiter=self._threads)
        finally:
            self._readers.release()
        return self._answered(key, asked, pull, pull.answer(got))

    def _answered(
        self, key: QueueOfGroup, asked: int, pull: CheckedPull, response: Response
    ) -> Response | Park:
        """The answer, or the pull to be parked if there is nothing and it may wait, `asked` ms."""
        self._offsets.pulled(key, int(response.ext["nextBeginOffset"]))
        response = self._suggestion.fill(response, pull.group, pull.topic, pull.queue_id)
        if response.code == ResponseCode.PULL_NOT_FOUND and asked > 0:
            if not self._config.now.long_polling_enable:
                asked = self._config.now.short_polling_time_mills
            if self._topics.get(pull.topic) is None:  # it was deleted meanwhile
                raise no_topic(pull.topic)
            if asked > 0:
                return Park(pull, asked / 1000, response)
        return response

    def _filtered(
        self,
        connection: Connection,
        code: int,
        group: str,
        topic: str,
        queue_id: int,
        wanted: Callable[[], Subscription],
    ) -> tuple[Subscription, SqlFilter | None]:
        """Checks, and returns what to filter by."""
        sub = self._check(connection, code, group, topic, queue_id, wanted)
        if sub.expression_type != SQL92:
            return sub, None
        return sub, self._filters.of(group, topic, sub.sub_string)

    def _check(
        self,
        connection: Connection,
        code: int,
        group: str,
        topic: str,
        queue_id: int,
        wanted: Callable[[], Subscription],
    ) -> Subscription:
        """The checks in RocketMQ's order; returns what to filter by."""
        config = self._config.now
        if not config.broker_permission & PERM_READ:
            raise NoPermissionError(
                f"the broker[{config.broker_name}] pulling message is forbidden"
            )
        if code == RequestCode.LITE_PULL_MESSAGE and not config.lite_pull_message_enable:
            raise NoPermissionError("lite pull is forbidden on this broker")
        if not self._groups.admit(group, connection).enabled("consumeEnable"):
            raise NoPermissionError(f"subscription group no permission, {group}")
        known = self._topics.get(topic)
        if known is None:
            raise no_topic(topic)
        if not known.readable:
            raise NoPermissionError(f"the topic[{topic}] pulling message is forbidden")
        if not 0 <= queue_id < known.read_queue_nums:
            raise InvalidParameterError(
                f"queueId[{queue_id}] is illegal, topic:[{topic}] "
                f"topicConfig.readQueueNums:[{known.read_queue_nums}]"
            )
        sub = wanted()
        if sub.expression_type != TAG:
            check_kind(config, sub.expression_type)
            sql_filter(sub.sub_string)
        self._groups.require(group, connection)
        return sub

    def _subscription(
        self, command: Command, group: str, topic: str, sys_flag: int
    ) -> Subscription:
        version = fields.int64(command, "subVersion", 0)
        if sys_flag & SUBSCRIPTION:
            kind = command.ext.get("expressionType") or TAG
            return Subscription.parse(topic, command.ext.get("subscription"), version, kind)
        return self._of_members(group, topic, version)

    def _of_members(self, group: str, topic: str, version: int) -> Subscription:
        live = self._clients.consumers.get(group)
        if live is None:
            raise SubscriptionError(
                f"the consumer's group info not exist: {group[:255]}",
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
            )
        settings = self._groups.groups.get(group)
        if (
            live.message_model == BROADCASTING
            and settings is not None
            and not settings.enabled("consumeBroadcastEnable")
        ):
            raise NoPermissionError(f"group[{group}] can not consume by broadcast way")
        sub = live.subscriptions.get(topic)
        if sub is None:
            raise SubscriptionError(
                f"the consumer's subscription not exist, group:{group}",
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
            )
        if sub.version < version:
            raise SubscriptionError(
                f"the consumer's subscription not latest, group:{group}",
                ResponseCode.SUBSCRIPTION_NOT_LATEST,
            )
        return sub


def _stated(sub: Subscription) -> Subscription:
    return sub


def pull_of_no_topic(topic: str) -> Response:
    """The answer to a pull that waits on a topic while it is deleted."""
    error = no_topic(topic)
    return Response(error.code or ResponseCode.TOPIC_NOT_EXIST, error.args[0])
