"""PULL_MESSAGE and LITE_PULL_MESSAGE. [PullMessageProcessor]"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import trio

from pyrmq.broker.bounds import LoopTime
from pyrmq.broker.config.broker_config import LiveConfig
from pyrmq.broker.requests import fields
from pyrmq.broker.requests.suggest import Suggestion
from pyrmq.broker.stats.broker_stats import BrokerStats
from pyrmq.broker.tables.clients import BROADCASTING, ClientTable
from pyrmq.broker.tables.consumer_filters import ConsumerFilters
from pyrmq.broker.tables.filter_data import check_kind, sql_filter
from pyrmq.broker.tables.groups import GroupTable
from pyrmq.broker.tables.offsets import OffsetTable, QueueOfGroup
from pyrmq.broker.tables.topics import TopicTable, no_topic
from pyrmq.engine import Command, GetResult, PullGrants, Slice, SqlFilter, Store
from pyrmq.errors import InvalidParameterError, NoPermissionError, PyrmqError, SubscriptionError
from pyrmq.model.codes import RequestCode, ResponseCode
from pyrmq.model.names import TRANSACTION_GROUP
from pyrmq.model.subscription import SQL92, TAG, Subscription
from pyrmq.model.topic import PERM_READ
from pyrmq.net.command import Response
from pyrmq.net.server.answers import Elsewhere, Park
from pyrmq.net.server.connection import Connection
from pyrmq.net.server.line import Line

COMMIT_OFFSET = 0x1
SUSPEND = 0x2
SUBSCRIPTION = 0x4

STATUS_NAMES = (
    "FOUND", "NO_MATCHED_MESSAGE", "MESSAGE_WAS_REMOVING", "OFFSET_FOUND_NULL",
    "OFFSET_OVERFLOW_BADLY", "OFFSET_OVERFLOW_ONE", "OFFSET_TOO_SMALL", "NO_MATCHED_LOGIC_QUEUE",
    "NO_MESSAGE_IN_QUEUE",
)  # fmt: skip
_CODES = (0, 20, 20, 19, 21, 19, 21, 19, 19)
"""Response codes by status; the last two are 21 when the offset asked for is not 0."""
_NO_MATCH = 1
_NO_QUEUE = 7
DISK_READERS = 16
"""Pulls that wait for the disk at a time, each in a thread of its own; more wait for their turn."""
PULL_BYTES = 1024
"""Bytes of a pull that waits, about, without its tags."""
SQL_BYTES = 32
"""Bytes that a compiled SQL92 expression takes for each of its characters, about."""
MAX_COUNT = 256
MAX_READS = 64
"""Reads for one parked pull at a time, of some hundred queue entries each; after that the client is
sent on to pull from there."""


SQL_WAKES = LoopTime(0.1, 0.1)
"""For parked pulls with an SQL92 filter, when messages come."""


@dataclass(slots=True, eq=False)
class CheckedPull:
    """A pull as it was checked: what it takes to read, again and again, and to answer."""

    store: Store
    topic: str
    queue_id: int
    offset: int
    max_count: int
    tags: array[int]
    sql: SqlFilter | None = None
    group: str = ""
    stats: BrokerStats | None = None
    """Counts what is read for the group."""
    grants: PullGrants | None = None
    checked: int = 0
    """Their generation when it was checked."""
    check: Callable[[], tuple[Subscription, SqlFilter | None]] | None = None
    """Checks it again."""
    sql_length: int = 0
    """Characters of the expression."""

    @property
    def cost(self) -> int:
        """Bytes that it takes while it waits, about."""
        return PULL_BYTES + 4 * len(self.tags) + SQL_BYTES * self.sql_length

    def _get(self, wait: bool) -> GetResult | None:
        return self.store.get(
            self.topic,
            self.queue_id,
            self.offset,
            self.max_count,
            tags=self.tags or None,
            wait=wait,
            sql=self.sql,
        )

    def read_memory(self) -> Response | None:
        """Reads once; None if the disk would have to be waited for."""
        got = self._get(wait=False)
        return None if got is None else self.answer(got)

    def read_disk(self) -> GetResult:
        """Reads once, from the disk where need be: not for the event loop. `answer` is."""
        got = self._get(wait=True)
        assert got is not None
        return got

    def answer(self, got: GetResult) -> Response:
        """Counts what was read, and answers with it."""
        if self.stats is not None:
            if got.count:
                self.stats.pulled(self.topic, self.group, 1, got.count, got.nbytes)
            else:
                self.stats.missed()
        return _response(self.offset, got)

    def read(self) -> Response:
        """Reads once and answers, whatever there is. What is on disk only is left to the pull that
        the client sends next."""
        return self.read_memory() or self._elsewhere()

    def read_on(self) -> Response | None:
        """Reads what has come since it was parked; None while nothing of it is wanted. Messages
        that the tags leave out are left behind. If something was revoked, it is checked again."""
        if self.grants is not None and self.grants.generation() != self.checked:
            refused = self._check_again(self.grants)
            if refused is not None:
                return refused
        if self.sql is not None:
            return self._read_on_by_sql()
        for _ in range(MAX_READS):
            response = self.read_memory()
            if response is None:
                return self._elsewhere()
            if response.code != ResponseCode.PULL_RETRY_IMMEDIATELY:
                return None if response.code == ResponseCode.PULL_NOT_FOUND else response
            self.offset = int(response.ext["nextBeginOffset"])
        return response

    def _check_again(self, grants: PullGrants) -> Response | None:
        """The refusal, None if it is still allowed, from now on by the subscription as it is."""
        self.checked = grants.generation()
        if self.check is None:
            return None
        try:
            sub, self.sql = self.check()
        except PyrmqError as e:
            return Response(e.code or ResponseCode.SYSTEM_ERROR, e.args[0])
        self.tags = sub.tag_codes
        return None

    def _read_on_by_sql(self) -> Response | None:
        """One read, if the loop has time for it. Otherwise the client is told to ask again, and a
        thread reads for it."""
        if not SQL_WAKES.may_begin():
            return self._elsewhere()
        began = time.monotonic()
        response = self.read_memory()
        SQL_WAKES.took(time.monotonic() - began)
        if response is None:
            return self._elsewhere()
        if response.code == ResponseCode.PULL_RETRY_IMMEDIATELY:
            self.offset = int(response.ext["nextBeginOffset"])
            if self.offset >= int(response.ext["maxOffset"]):
                return None
        return None if response.code == ResponseCode.PULL_NOT_FOUND else response

    def _elsewhere(self) -> Response:
        low, high = self.store.queue_range(self.topic, self.queue_id)
        return _answer(_NO_MATCH, self.offset, low, high)


def _response(offset: int, got: GetResult) -> Response:
    status = got.status
    code = _CODES[status]
    if status >= _NO_QUEUE and offset != 0:
        code = ResponseCode.PULL_OFFSET_MOVED
    return _answer(status, got.next_offset, got.min_offset, got.max_offset, code, got.slices)


def _answer(
    status: int,
    next_offset: int,
    low: int,
    high: int,
    code: int | None = None,
    slices: Sequence[Slice] = (),
) -> Response:
    return Response(
        _CODES[status] if code is None else code,
        STATUS_NAMES[status],
        {
            "maxOffset": high,
            "minOffset": low,
            "nextBeginOffset": next_offset,
            "suggestWhichBrokerId": 0,
        },
        slices,
    )


def _stated(sub: Subscription) -> Subscription:
    return sub


def pull_of_no_topic(topic: str) -> Response:
    """The answer to a pull that waits on a topic while it is deleted."""
    error = no_topic(topic)
    return Response(error.code or ResponseCode.TOPIC_NOT_EXIST, error.args[0])


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
        may_grant = group != TRANSACTION_GROUP and self._suggestion.may_grant
        if response.code == ResponseCode.SUCCESS and may_grant:
            connection.session.grant_pull(command, topic, group, queue_id, sub.tag_codes)
        return self._answered(key, asked, pull, response)

    def _moved(self, topic: str, queue_id: int, offset: int) -> Response:
        """An operator has moved the group's offset: its next pull begins there."""
        low, high = self._store.queue_range(topic, queue_id)
        return _answer(_NO_MATCH, offset, low, high, ResponseCode.PULL_OFFSET_MOVED)

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
