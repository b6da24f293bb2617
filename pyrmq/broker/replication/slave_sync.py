"""A slave's tables follow its master's: topics, groups, offsets, delay offsets, request modes.
[SlaveSynchronize]

Each pass asks for all of them and changes what differs, nothing else. What the master has not
goes, but for what is every broker's own. Offsets are the master's, except those that consumers
committed here, as the master was away, while these are further and the master has not moved on
since. They are handed over to the master, also after a restart of the slave; the master takes them
unless it was told something else meanwhile, which counts.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import trio

from pyrmq.broker.replication.role import MASTER_FILE
from pyrmq.broker.replication.slave import Master
from pyrmq.broker.tables import config_file
from pyrmq.broker.tables.groups import Group, GroupTable, is_own
from pyrmq.broker.tables.offset_file import QueueOfGroup
from pyrmq.broker.tables.offsets import OffsetTable
from pyrmq.broker.tables.topic_creation import Topics
from pyrmq.broker.tables.topic_removal import TopicDeletion
from pyrmq.errors import (
    NoPermissionError,
    ProtocolError,
    PyrmqError,
    ResponseError,
    ServiceNotAvailableError,
)
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.codes import RequestCode
from pyrmq.model.names import OWN_OFFSETS, is_stored_topic
from pyrmq.model.topic import MAX_QUEUES, DataVersion, TopicConfig, as_int
from pyrmq.net import fastjson
from pyrmq.net.address import format_address
from pyrmq.net.client.channel import Channel, Channels

log = logging.getLogger(__name__)

CHECK_POINT_SIZE, MAX_CHECK_POINT = 32, 4096
"""Bytes of a check point of timers. [TimerCheckpoint]"""
TRIES = 20
"""Passes in which a check point of timers is waited for."""
PERIOD = 3.0
"""Seconds between two passes, and after one that failed."""
LONG_PERIOD = 10.0
"""The same where the tables are large."""
MAX_TIME = 1 << 53
"""No clock gets this far."""
MAX_OFFSET = 1 << 62
"""No queue gets this far."""
LARGE = 1 << 20
"""Bytes of a pass's answers."""
TIMEOUT = 10.0
"""Seconds that the master may take to answer a request."""
MAX_HANDED_OVER = 2000
"""Offsets that are handed over in one pass."""
MAX_LEFT_OUT = 64
"""Names that are logged, of rows that are not followed."""
AT_ONCE = 200
"""Rows that are compared before others have their turn."""

Offsets = dict[tuple[str, str], dict[int, int]]
"""By topic and group the offset of each queue."""


class SlaveSync:
    """`master` waits until a master is known, and names the one that the log follows. While the log
    follows none (`follows`), the tables do not either: a master that came back without its disk has
    none. `wake` begins a pass at once."""

    def __init__(
        self,
        folder: Path,
        topics: Topics,
        groups: GroupTable,
        offsets: OffsetTable,
        deletion: TopicDeletion,
        master: Callable[[], Awaitable[Master]],
        follows: Callable[[], bool],
        open_channels: Callable[[], Channels] = Channels,
        follow_timers: Callable[[bytes, int], bool] = lambda check_point, log_end: True,
        pops_here: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._pops_here = pops_here
        self._popped: int | None = None
        """Where the check points ended that were here as the last pass asked for offsets."""
        self._follow_timers = follow_timers
        self.on_modes: Callable[[Mapping[Any, Any]], None] = lambda modes: None
        """Gets the master's request modes."""
        self._timers_tried = 0
        self._timers: tuple[bytes, int] | None = None
        """The check point of the master's timers that is to be followed next."""
        self._open_channels = open_channels
        self._folder = folder
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._deletion = deletion
        self._master = master
        self._follows = follows
        self._here: set[QueueOfGroup] = set()
        self._not_taken: dict[QueueOfGroup, int] = {}
        """Those of `_here` that the master has refused, and in which of `_handed_over`."""
        self._handed_over = 0
        """How often something was handed over."""
        self._refused = ""
        self._seen: Offsets = {}
        """The master's offsets, as the pass before had them."""
        self._versions: dict[str, object] = {}
        """Of the tables that were taken over, and of what was written to files."""
        self._left_out: set[tuple[str, str]] = set()
        self._wake = trio.Event()
        self._failure = ""
        self._bytes = 0
        self.passes = 0

    def wake(self) -> None:
        self._wake.set()

    async def run(self) -> None:
        """Makes passes until cancelled."""
        self._here |= self._offsets.found_here
        self._offsets.here = self._here
        async with self._open_channels() as channels:
            while True:
                master = await self._master()
                done = await self._pass(channels, master)
                is_large = done and self._bytes > LARGE
                with trio.move_on_after(LONG_PERIOD if is_large else PERIOD):
                    await self._wake.wait()
                self._wake = trio.Event()

    async def _pass(self, channels: Channels, master: Master) -> bool:
        """Whether all went well. What failed is logged once."""
        try:
            if not self._follows():
                raise ServiceNotAvailableError("this slave's log does not follow it")
            channel = await channels.get(master.broker)
            await self.once(channel)
        except Exception as e:  # whatever a master answers, the next pass tries again
            if not isinstance(e, PyrmqError | OSError):
                log.exception("what the master answers cannot be used")
            why = f"{format_address(master.broker)}: {e}"
            if not self._failure:
                # Messages may have come to topics that no pass has seen.
                self._topics.creation.adopt_stored()
            if why != self._failure:
                # Why the log does not follow is what the log's own connection says.
                level = logging.WARNING if self._follows() else logging.DEBUG
                log.log(
                    level,
                    "tables do not follow the master's for now: %s",
                    escape(why),
                    extra=about(broker=format_address(master.broker)),
                )
            self._failure = why
            return False
        self._failure = ""
        self.passes += 1
        return True

    async def once(self, channel: Channel) -> None:
        """Makes one pass. PyrmqError, OSError."""
        self._bytes = 0
        status: Mapping[Any, Any] = {}
        with suppress(ResponseError):  # a broker before 5.0
            status = await self._ask(channel, RequestCode.GET_BROKER_HA_STATUS)
            await self._keep_since(status)
        await self._sync_topics(await self._ask(channel, RequestCode.GET_ALL_TOPIC_CONFIG))
        popped = self._pops_here()
        await self._sync_offsets(await self._ask(channel, RequestCode.GET_ALL_CONSUMER_OFFSET))
        # A pop whose check point was here as the pass before began is in the offsets of this one.
        if self._popped is not None:
            self._offsets.pop_start = self._popped
        self._popped = popped
        if status.get("takesOffsets") is True:
            await self._hand_over(channel)
        await self._keep(
            "delayOffset.json", await self._ask(channel, RequestCode.GET_ALL_DELAY_OFFSET)
        )
        await self._sync_timers(channel)
        await self._sync_groups(
            await self._ask(channel, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        )
        try:
            modes = await self._ask(channel, RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
        except ResponseError:
            return  # a broker before 5.0, or one without them
        await self._keep("messageRequestMode.json", modes)
        self.on_modes(modes)

    async def _ask(self, channel: Channel, code: int) -> dict[Any, Any]:
        answer = await channel.request(code, timeout=TIMEOUT)
        self._bytes += len(answer.body)
        return fastjson.loads_object(answer.body) if answer.body else {}

    async def _sync_topics(self, answer: Mapping[Any, Any]) -> None:
        table, version = _table(answer, "topicConfigTable"), answer.get("dataVersion")
        known = DataVersion.from_json(version)
        if not table or self._versions.get("topics") == (known, self._topics.table.version.counter):
            return
        found: dict[str, TopicConfig] = {}
        for count, (name, row) in enumerate(table.items(), 1):
            if not is_stored_topic(str(name)):
                self._leave_out("topic", str(name))
            elif isinstance(row, dict):
                found[str(name)] = TopicConfig.from_row(str(name), row)
            if count % AT_ONCE == 0:
                await trio.lowlevel.checkpoint()
        self._topics.table.follow(found, known)
        gone = [
            name
            for name in self._topics.table.topics
            if name not in found and not self._topics.table.is_system(name)
        ]
        if gone:
            text = ", ".join(gone[:10])
            log.info("%d topics are gone at the master: %s", len(gone), escape(text))
            await self._deletion.remove(gone, lambda name: name in found)
        self._versions["topics"] = known, self._topics.table.version.counter

    async def _sync_groups(self, answer: Mapping[Any, Any]) -> None:
        table, version = _table(answer, "subscriptionGroupTable"), answer.get("dataVersion")
        known = DataVersion.from_json(version)
        if not table or self._versions.get("groups") == (known, self._groups.version.counter):
            return
        found: dict[str, Group] = {}
        for name, row in table.items():
            if not is_stored_topic(str(name)):
                self._leave_out("group", str(name))
            elif isinstance(row, dict):
                found[str(name)] = Group(str(name), row)
        gone = [name for name in self._groups.groups if name not in found and not is_own(name)]
        for count, group in enumerate(found.values(), 1):
            own = self._groups.groups.get(group.name)
            if own is None or own.values != group.values:
                self._groups.update(group)
            if count % AT_ONCE == 0:
                await trio.lowlevel.checkpoint()
        for name in gone:
            self._groups.remove(name)
        self._versions["groups"] = known, self._groups.version.counter

    async def _sync_timers(self, channel: Channel) -> None:
        """Follows the check point of the pass before, if the log has all of it by now, and asks for
        the next. [SlaveSynchronize.syncTimerCheckPoint]"""
        if self._timers is not None and not await self._follow(self._timers):
            return
        try:
            answer = await channel.request(RequestCode.GET_TIMER_CHECK_POINT, timeout=TIMEOUT)
            end = as_int(answer.ext.get("logEnd"), -1)
            if end < 0:  # an Apache broker: all that it has by now is what it speaks of
                status = await self._ask(channel, RequestCode.GET_BROKER_HA_STATUS)
                end = as_int(status.get("masterCommitLogMaxOffset"), -1)
        except ResponseError:
            return  # a broker without timers
        if end < 0 or not CHECK_POINT_SIZE <= len(answer.body) <= MAX_CHECK_POINT:
            raise ProtocolError("the answer to GET_TIMER_CHECK_POINT is no check point")
        await self._follow((bytes(answer.body), end))

    async def _follow(self, check_point: tuple[bytes, int]) -> bool:
        """Keeps what cannot be followed yet for some passes."""
        self._timers_tried += 1
        if await trio.to_thread.run_sync(self._follow_timers, *check_point):
            self._timers, self._timers_tried = None, 0
            return True
        if self._timers_tried >= TRIES:  # the master's log may have lost its end
            self._timers, self._timers_tried = None, 0
        else:
            self._timers = check_point
        return False

    def _leave_out(self, what: str, name: str) -> None:
        """Logs once that a row of the master is not followed."""
        if len(self._left_out) < MAX_LEFT_OUT and (what, name) not in self._left_out:
            self._left_out.add((what, name))
            log.warning(
                "the master's %s %s is left out: no %s has this name",
                what,
                escape(repr(name[:64])),
                what,
            )

    async def _sync_offsets(self, answer: Mapping[Any, Any]) -> None:
        found: Offsets = {}
        for count, (key, queues) in enumerate(_table(answer, "offsetTable").items(), 1):
            topic, sep, group = str(key).partition("@")
            if sep and isinstance(queues, dict):
                found[topic, group] = {
                    as_int(queue, -1): as_int(offset, -1) for queue, offset in queues.items()
                }
            if count % AT_ONCE == 0:
                await trio.lowlevel.checkpoint()
        for count, ((topic, group), queues) in enumerate(found.items(), 1):
            own = self._offsets.all_of(topic, group)
            seen = self._seen.get((topic, group), {})
            for queue, offset in queues.items():
                here = own.get(queue, -1)
                if not (0 <= queue < MAX_QUEUES and 0 <= offset < MAX_OFFSET) or here == offset:
                    continue
                is_ours = (topic, group, queue) in self._here
                if is_ours and here > offset and offset <= seen.get(queue, offset) < here:
                    continue
                self._take(topic, group, queue, offset)
            if count % AT_ONCE == 0:
                await trio.lowlevel.checkpoint()
        self._seen = found
        if found:  # a master that has none at all may have lost its file
            await self._remove_gone(found)

    async def _remove_gone(self, found: Offsets) -> None:
        """Removes the offsets that groups have no more at the master."""
        gone = [key for key in self._offsets.offsets if key not in found]
        for count, (topic, group) in enumerate(gone, 1):
            queues = self._offsets.all_of(topic, group)
            if group not in OWN_OFFSETS and not any(
                (topic, group, queue) in self._here for queue in queues
            ):
                self._offsets.remove(topic, group)
            if count % AT_ONCE == 0:
                await trio.lowlevel.checkpoint()

    def _take(self, topic: str, group: str, queue: int, offset: int) -> None:
        """The master's word counts."""
        self._offsets.keep(topic, group, queue, offset)
        self._here.discard((topic, group, queue))

    async def _hand_over(self, channel: Channel) -> None:
        """Tells the master what was committed here and is further than what it has; what it has
        refused before last."""
        refused: dict[str, int] = {}
        not_taken = self._not_taken = {k: n for k, n in self._not_taken.items() if k in self._here}
        self._handed_over += 1
        for key in heapq.nsmallest(
            MAX_HANDED_OVER, self._here, key=lambda key: not_taken.get(key, 0)
        ):
            topic, group, queue = key
            offset = self._offsets.query(topic, group, queue)
            masters = self._seen.get((topic, group), {}).get(queue, -1)
            if offset is None or offset <= masters:
                self._here.discard(key)
                continue
            fields: dict[str, str | int | bool] = {
                "consumerGroup": group,
                "topic": topic,
                "queueId": queue,
                "commitOffset": offset,
                "handOver": True,
            }
            try:
                answer = await channel.request(
                    RequestCode.UPDATE_CONSUMER_OFFSET, fields, timeout=TIMEOUT
                )
            except NoPermissionError as e:
                refused[str(e)] = refused.get(str(e), 0) + 1
                break  # all of them
            except ResponseError as e:  # the group is not there, say; or not yet
                refused[str(e)] = refused.get(str(e), 0) + 1
                not_taken[key] = self._handed_over
                continue
            if answer.ext.get("taken") == "true":
                self._seen.setdefault((topic, group), {})[queue] = offset
                if self._offsets.query(topic, group, queue) == offset:
                    self._here.discard(key)
            elif masters >= 0:
                self._take(topic, group, queue, masters)
            else:
                self._here.discard(key)
        text = next(iter(refused), "")
        if text != self._refused:
            if text:
                log.warning("the master does not take offsets of this slave: %s", escape(text))
            self._refused = text

    async def _keep_since(self, status: Mapping[Any, Any]) -> None:
        """Since when the master is one: this broker, once promoted, is one since later, also where
        the clocks of their machines differ."""
        since = status.get("masterSince")
        if isinstance(since, int) and 0 <= since < MAX_TIME:
            await self._keep(MASTER_FILE, {"masterSince": since})

    async def _keep(self, name: str, content: Mapping[Any, Any]) -> None:
        """Writes a table into its file, for the day on which this broker is master."""
        if not content or self._versions.get(name) == content:
            return
        await trio.to_thread.run_sync(config_file.save, self._folder / name, dict(content))
        self._versions[name] = content


def _table(answer: Mapping[Any, Any], name: str) -> dict[Any, Any]:
    table = answer.get(name)
    return table if isinstance(table, dict) else {}
