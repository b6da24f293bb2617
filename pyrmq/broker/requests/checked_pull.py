"""A pull that was checked: reading for it, now and whenever messages come, and answering it."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyrmq.broker.bounds import LoopTime
from pyrmq.broker.stats.broker_stats import BrokerStats
from pyrmq.engine import GetResult, PullGrants, Slice, SqlFilter, Store
from pyrmq.errors import PyrmqError
from pyrmq.model.codes import ResponseCode
from pyrmq.model.subscription import Subscription
from pyrmq.net.command import Response
from pyrmq.net.server.connection import Connection

STATUS_NAMES = (
    "FOUND", "NO_MATCHED_MESSAGE", "MESSAGE_WAS_REMOVING", "OFFSET_FOUND_NULL",
    "OFFSET_OVERFLOW_BADLY", "OFFSET_OVERFLOW_ONE", "OFFSET_TOO_SMALL", "NO_MATCHED_LOGIC_QUEUE",
    "NO_MESSAGE_IN_QUEUE",
)  # fmt: skip
_CODES = (0, 20, 20, 19, 21, 19, 21, 19, 19)
"""Response codes by status; the last two are 21 when the offset asked for is not 0."""
NO_MATCH = 1
_NO_QUEUE = 7
PULL_BYTES = 1024
"""Bytes of a pull that waits, about, without its tags."""
SQL_BYTES = 32
"""Bytes that a compiled SQL92 expression takes for each of its characters, about."""
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
    client: Connection | None = None
    """Whose it is: what is read is counted there as well."""
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
                if self.client is not None:
                    self.client.got(got.count, got.nbytes)
            else:
                self.stats.missed()
        return response_of(self.offset, got)

    def read(self) -> Response:
        """Reads once and answers, whatever there is. What is on disk only is left to the pull that
        the client sends next."""
        return self.read_memory() or self._ask_again()

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
                return self._ask_again()
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
            return self._ask_again()
        began = time.monotonic()
        response = self.read_memory()
        SQL_WAKES.took(time.monotonic() - began)
        if response is None:
            return self._ask_again()
        if response.code == ResponseCode.PULL_RETRY_IMMEDIATELY:
            self.offset = int(response.ext["nextBeginOffset"])
            if self.offset >= int(response.ext["maxOffset"]):
                return None
        return None if response.code == ResponseCode.PULL_NOT_FOUND else response

    def _ask_again(self) -> Response:
        low, high = self.store.queue_range(self.topic, self.queue_id)
        return answer_of(NO_MATCH, self.offset, low, high)


def response_of(offset: int, got: GetResult) -> Response:
    status = got.status
    code = _CODES[status]
    if status >= _NO_QUEUE and offset != 0:
        code = ResponseCode.PULL_OFFSET_MOVED
    return answer_of(status, got.next_offset, got.min_offset, got.max_offset, code, got.slices)


def answer_of(
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
