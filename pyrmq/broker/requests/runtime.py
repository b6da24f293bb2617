"""What operators ask of the broker itself: its figures, and its configuration.
[AdminBrokerProcessor]

GET_BROKER_RUNTIME_INFO gives figures as texts. The names are RocketMQ's where it has one; those of
transactions are ours. What this broker does not measure is left out rather than made up, but for
what RocketMQ's exporter needs to read the others: `_ABSENT_PARTS`.
GET_BROKER_CONFIG and UPDATE_BROKER_CONFIG read and change the configuration.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from pyrmq.broker.bounds import Bounded
from pyrmq.broker.config.broker_config import OTHER_KEYS, BrokerConfig
from pyrmq.broker.config.updates import ConfigUpdates
from pyrmq.broker.stats.broker_stats import BrokerStats
from pyrmq.broker.stats.disk_use import disk_of
from pyrmq.config.files import format_properties, parse_properties
from pyrmq.config.table import FixedKey, check_value, values_of
from pyrmq.engine import Command, Delays, Store
from pyrmq.errors import (
    ConfigError,
    InvalidParameterError,
    NoPermissionError,
    ServiceNotAvailableError,
)
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.codes import VERSION
from pyrmq.model.topic import PERM_WRITE
from pyrmq.net import fastjson
from pyrmq.net.address import Address
from pyrmq.net.clock import now_ms
from pyrmq.net.command import Response
from pyrmq.net.server.answers import Elsewhere
from pyrmq.net.server.connection import Connection
from pyrmq.txn import TransactionService

ASKED, ASKED_WAITING = 2, 62
"""Requests at a time, and how many more may wait: they ask the disk."""
_SYS_FLAG = 36
_BORN_HOST_V6 = 1 << 4
_STORE_TIME, _STORE_TIME_V6 = 56, 68
"""Where a record has its flags (4 bytes) and its store time (8 bytes). [MessageDecoder]"""

_ABSENT_PARTS = {
    "remainTransientStoreBufferNumbs": (1 << 31) - 1,
    "dispatchMaxBuffer": 0,
}
"""What RocketMQ says of a store without a pool of buffers, and without messages that wait between
log and queues, as this one is."""
_NO_MESSAGE = -1
"""The time of the first message of an empty log."""
_TRANSACTION_KEYS = {
    "halves": "transactionHalfCount",
    "commits": "transactionCommitCount",
    "rollbacks": "transactionRollbackCount",
    "pending": "transactionPendingCount",
    "checks": "transactionCheckCount",
    "discarded": "transactionDiscardedCount",
    "lost": "transactionLostCount",
    "repeated": "transactionRepeatedEndCount",
    "owed": "transactionOwedOpCount",
    "unreachable": "transactionUnreachableCount",
    "failed": "transactionFailedCheckCount",
    "oldestPendingAgeMs": "transactionOldestPendingAgeMs",
}


class RuntimeInfo:
    """`waiting`: figures of what waits now, asked each time."""

    def __init__(
        self,
        config: BrokerConfig,
        store: Store,
        transactions: TransactionService,
        delays: Delays,
        stats: BrokerStats,
        waiting: Callable[[], Mapping[str, object]],
    ) -> None:
        self._config = config
        self._store = store
        self._transactions = transactions
        self._delays = delays
        self._stats = stats
        self._waiting = waiting
        self._boot = now_ms()
        self._earliest = EarliestTime(store)
        self._requests = Bounded("requests for runtime info", ASKED, ASKED_WAITING)

    def __call__(self, connection: Connection, command: Command) -> Elsewhere:
        return self._requests.begin(self._answer())

    async def _answer(self) -> Response:
        disk = await self._requests.run(self._disk)
        return Response(body=fastjson.dumps({"table": self.table(disk)}))

    def table(self, disk: Mapping[str, object]) -> dict[str, str]:
        stats = self._store.stats()
        end = stats["maxPhyOffset"]
        table: dict[str, object] = {
            "bootTimestamp": self._boot,
            "runtime": _duration((now_ms() - self._boot) // 1000),
            "brokerActive": "true",
            "brokerVersion": VERSION,
            "brokerVersionDesc": "V5_3_3",
            "startAcceptSendRequestTimeStamp": 0,
            "commitLogMinOffset": stats["minPhyOffset"],
            "commitLogMaxOffset": end,
            "dispatchBehindBytes": end - stats["indexedWhere"],
            "remainHowManyDataToFlush": _size(end - stats["flushedWhere"]),
            **_ABSENT_PARTS,
            **disk,
            **self._counted(),
            **self._times(),
            **self._waiting(),
        }
        for level, (offset, end) in enumerate(self._delays.levels(), 1):
            table[f"scheduleMessageOffset_{level}"] = f"{offset},{end}"
        for name, value in self._transactions.stats().items():
            table[_TRANSACTION_KEYS[name]] = value
        return {key: str(value) for key, value in sorted(table.items())}

    def _counted(self) -> dict[str, object]:
        """Totals and rates. [StoreStatsService, BrokerStats]"""
        rates, totals, mornings = self._stats.rates, self._stats.totals(), self._stats.mornings
        transferred = rates.text("got")
        return {
            "putMessageTimesTotal": totals.put,
            "putMessageSizeTotal": totals.put_bytes,
            "putMessageAverageSize": totals.put_bytes / totals.put if totals.put else 0.0,
            "putTps": rates.text("put"),
            "getFoundTps": rates.text("found"),
            "getMissTps": rates.text("missed"),
            "getTotalTps": rates.text("found", "missed"),
            "getTransferredTps": transferred,
            "getTransferedTps": transferred,  # its name until 4.9
            "msgPutTotalYesterdayMorning": mornings.yesterday[0],
            "msgPutTotalTodayMorning": mornings.today[0],
            "msgPutTotalTodayNow": totals.plain_put,
            "msgGetTotalYesterdayMorning": mornings.yesterday[1],
            "msgGetTotalTodayMorning": mornings.today[1],
            "msgGetTotalTodayNow": totals.plain_got,
        }

    def _times(self) -> dict[str, object]:
        """How long sends take. [StoreStatsService]"""
        times = self._stats.put_times
        return {
            "putMessageEntireTimeMax": times.longest_ms,
            "putMessageDistributeTime": times.distribution(),
            "putLatency99": f"{times.percentile(0.99):.2f}",
            "putLatency999": f"{times.percentile(0.999):.2f}",
        }

    def _disk(self) -> dict[str, object]:
        """Figures that are asked of the disk, in a thread."""
        root, logs = self._config.store_path_root_dir, self._config.commit_log_dirs
        ratios = {path: disk_of(path).used_part for path in logs}
        table: dict[str, object] = {f"commitLogDiskRatio_{p}": r for p, r in ratios.items()}
        table["commitLogDiskRatio"] = min(ratios.values())
        table["consumeQueueDiskRatio"] = disk_of(root).used_part
        every = free = 0
        with suppress(OSError):
            fs = os.statvfs(root)
            every, free = fs.f_blocks * fs.f_frsize, fs.f_bfree * fs.f_frsize
        table["commitLogDirCapacity"] = f"Total : {_size(every)}, Free : {_size(free)}."
        earliest = None
        with suppress(OSError):
            earliest = self._earliest()
        table["earliestMessageTimeStamp"] = _NO_MESSAGE if earliest is None else earliest
        return table


class EarliestTime:
    """Store time of the first message of a log, ms. May wait for the disk."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: tuple[int, int] | None = None
        """The log's first offset, and the store time of the message there."""

    def __call__(self) -> int | None:
        """None if there is no message. OSError."""
        first = self._store.stats()["minPhyOffset"]
        known = self._known
        if known is None or known[0] != first:
            record = self._store.record_at(first)
            if record is None:
                return None
            flags = int.from_bytes(record[_SYS_FLAG : _SYS_FLAG + 4], "big")
            at = _STORE_TIME_V6 if flags & _BORN_HOST_V6 else _STORE_TIME
            known = self._known = (first, int.from_bytes(record[at : at + 8], "big"))
        return known[1]


def why_it_refuses(config: BrokerConfig, store: Store) -> str:
    """Why producers' messages are refused now; empty while they are taken. Of a slave why it cannot
    follow its master."""
    why = store.refusal()
    if why is None and not config.is_slave and not config.broker_permission & PERM_WRITE:
        why = f"brokerPermission={config.broker_permission}"
    return why or ""


def _size(n: float) -> str:
    """As RocketMQ writes sizes. [MixAll.humanReadableByteCount]"""
    if n < 1024:
        return f"{n} B"
    for unit in "KMGTP":
        n /= 1024
        if n < 1024:
            return f"{n:.1f} {unit}iB"
    return f"{n / 1024:.1f} EiB"


def _duration(seconds: int) -> str:
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"


log = logging.getLogger(__name__)

MAX_BODY = 16_384
"""Longest update, bytes."""
MAX_NAMED = 5
"""Most faults that are looked for, and named."""
WAITING = 16
"""Updates that may wait for the one under way."""


ChangeRole = Callable[[Mapping[str, str], str], Awaitable[str]]
"""Changes brokerRole, and says what it did: by whom it was asked is its second argument."""


class ConfigProcessor:
    """`told` waits until the name servers know what concerns them."""

    def __init__(
        self,
        updates: ConfigUpdates,
        address: Address,
        told: Callable[[], Awaitable[None]],
        change_role: ChangeRole,
    ) -> None:
        self._change_role = change_role
        self._updates = updates
        self._address = address
        self._told = told
        self._bounded = Bounded("updates of the configuration", 1, WAITING)

    def get(self, connection: Connection, command: Command) -> Response:
        """GET_BROKER_CONFIG: every key that this version knows the meaning of, as `key=value`."""
        values = values_of(self._updates.live.now)
        host, port = self._address
        values |= {"brokerIP1": host, "listenPort": str(port)}
        values |= {row.name: row.accepted[0] for row in OTHER_KEYS if isinstance(row, FixedKey)}
        version = fastjson.dumps(self._updates.version.to_json()).decode()
        unsaved = {"unsaved": self._updates.unsaved} if self._updates.unsaved else {}
        return Response(
            ext={"version": version, **unsaved}, body=format_properties(values).encode()
        )

    def update(self, connection: Connection, command: Command) -> Elsewhere:
        """UPDATE_BROKER_CONFIG: lines `key=value`, of which all count or none."""
        values = self._parsed(command.body)
        if "brokerRole" in values:
            for key, value in values.items():
                self._check(key, value)
            change = self._change_role(values, connection.peer)
            return self._bounded.begin(self._role(change))
        return self._bounded.begin(self._update(connection, self._checked(values)))

    async def _role(self, change: Awaitable[str]) -> Response:
        return Response(remark=await change)

    def _parsed(self, body: bytes) -> dict[str, str]:
        if len(body) > MAX_BODY:
            raise InvalidParameterError(f"an update has at most {MAX_BODY} bytes")
        try:
            values = parse_properties(body.decode())
        except UnicodeDecodeError:
            raise InvalidParameterError("the update is not UTF-8") from None
        if not values:
            raise InvalidParameterError("the update has no line key=value")
        return values

    def _check(self, key: str, value: str) -> None:
        try:
            check_value(BrokerConfig, key, value, OTHER_KEYS)
        except ConfigError as e:
            raise InvalidParameterError(_nothing_changed([str(e)])) from e

    def _checked(self, values: dict[str, str]) -> dict[str, str]:
        wrong: list[str] = []
        fixed: list[str] = []
        for key, value in values.items():
            if len(wrong) + len(fixed) >= MAX_NAMED:
                break
            try:
                check_value(BrokerConfig, key, value, OTHER_KEYS)
            except ConfigError as e:
                wrong.append(str(e))
                continue
            why = self._updates.why_not(key)
            if why is not None:
                fixed.append(why)
        if wrong:
            raise InvalidParameterError(_nothing_changed(wrong + fixed))
        if fixed:
            raise NoPermissionError(_nothing_changed(fixed))
        return values

    async def _update(self, connection: Connection, values: dict[str, str]) -> Response:
        try:
            changes = await self._updates.update(values)
        except ConfigError as e:
            raise InvalidParameterError(_nothing_changed([str(e)])) from e
        except OSError as e:
            raise ServiceNotAvailableError(f"the update cannot be saved: {e.strerror}") from e
        text = "; ".join(f"{key}: {old} -> {new}" for key, (old, new) in changes.items())
        unsaved = self._updates.unsaved
        if changes:
            log.info(
                "configuration updated by %s: %s",
                escape(connection.peer),
                escape(text),
                extra=about(connection=connection.peer),
            )
            await self._told()
        if changes and unsaved:
            text += f"; not saved ({unsaved}): a restart of the broker forgets it"
        return Response(remark=text or "nothing changed: these are the values already")


def _nothing_changed(faults: list[str]) -> str:
    return escape(f"nothing was changed: {'; '.join(fault[:300] for fault in faults)}")
