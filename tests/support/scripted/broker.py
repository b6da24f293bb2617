"""A broker of lists with transactions: as much of one as `pyrmq admin txn` needs, with nothing
checked and nothing decided. Every topic has queue 0 alone."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping

from tests.support.records import Record, encode_record
from tests.support.scripted.lists import BORN, RecordLists
from tests.support.scripted.sockets import SocketServer
from tests.support.wire import Command

HALF = "RMQ_SYS_TRANS_HALF_TOPIC"
OP = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
DISCARDED = "TRANS_CHECK_MAX_TIME_TOPIC"
GROUP = "CID_RMQ_SYS_TRANS"


class ScriptedBroker(RecordLists[str]):
    """Its queues go by their topics."""

    def __init__(self, batch: int = 32) -> None:
        super().__init__(batch)
        self.offsets: dict[str, int] = {}
        """Of the group that says how far transactions are settled, by topic."""
        self.indexed: int | None = None
        """Physical offset up to which the index knows messages, None for all."""
        self.info: dict[str, str] = {}

    def key_of(self, c: Command) -> str:
        return c.ext["topic"]

    def put(
        self,
        topic: str,
        body: bytes = b"",
        properties: Mapping[str, str] | None = None,
        *,
        born: int = BORN,
        **change: object,
    ) -> Record:
        return self.append(topic, topic, 0, body, properties or {}, born_timestamp=born, **change)

    def half(
        self,
        key: str | None,
        *,
        topic: str = "T",
        group: str = "PG",
        body: bytes = b"x",
        born: int = BORN,
        where: str = HALF,
        sys_flag: int = 0,
        **properties: str,
    ) -> Record:
        """A half as a broker stores it; further properties by name."""
        own = {"TRAN_MSG": "true", "PGROUP": group, "REAL_TOPIC": topic, "REAL_QID": "0"}
        if key is not None:
            own |= {"UNIQ_KEY": key, "__transactionId__": key}
        return self.put(where, body, own | properties, born=born, sys_flag=sys_flag)

    def op(self, *offsets: int, body: bytes | None = None, tag: str = "d") -> Record:
        text = "".join(f"{n}," for n in offsets).encode() if body is None else body
        return self.put(OP, text, {"TAGS": tag})

    def commit(self, half: Record) -> Record:
        """The message that a commit makes of a half."""
        properties = half.properties
        return self.put(
            properties["REAL_TOPIC"],
            half.body,
            properties,
            born=half.born_timestamp,
            sys_flag=half.sys_flag | 8,
            prepared_offset=half.physical_offset,
        )

    def answers(self) -> dict[int, Callable[[Command], Command]]:
        return super().answers() | {
            12: self._query, 14: self._group_offset, 28: self._info, 33: self._view,
            37: self._end_it, 323: self._resume,
        }  # fmt: skip

    def _pull(self, c: Command) -> Command:
        return super()._pull(c) if c.ext["topic"] in self.records else c.reply(17)

    def _group_offset(self, c: Command) -> Command:
        assert c.ext["consumerGroup"] == GROUP
        found = self.offsets.get(c.ext["topic"])
        return c.reply(22) if found is None else c.reply(0, {"offset": str(found)})

    def _view(self, c: Command) -> Command:
        found = self.log.get(int(c.ext["offset"]))
        return c.reply(1) if found is None else c.reply(0, {}, encode_record(found))

    def _query(self, c: Command) -> Command:
        found = [
            r
            for r in self._queue(c)
            if (self.indexed is None or r.physical_offset < self.indexed)
            and c.ext["key"]
            in (r.properties.get("UNIQ_KEY"), *r.properties.get("KEYS", "").split())
        ]
        body = b"".join(encode_record(r) for r in found[-int(c.ext["maxNum"]) :])
        return c.reply(0 if found else 22, {}, body)

    def _end_it(self, c: Command) -> Command:
        half = self.log[int(c.ext["commitLogOffset"])]
        if half.queue_offset != int(c.ext["tranStateTableOffset"]):
            return c.reply(1)
        if c.ext["commitOrRollback"] == "8":
            self.commit(half)
        self.op(half.queue_offset)
        return c.reply(0)

    def _resume(self, c: Command) -> Command:
        half = self.log[int(c.ext["msgId"][-16:], 16)]
        again = half.properties | {"TRANSACTION_CHECK_TIMES": "0"}
        self.put(HALF, half.body, again, born=half.born_timestamp)
        return c.reply(0)

    def _info(self, c: Command) -> Command:
        return c.reply(0, {}, json.dumps({"table": self.info}).encode())

    @contextlib.contextmanager
    def serving(self) -> Iterator[str]:
        """Answers on a loopback port until the end of the block; "host:port"."""
        with SocketServer(self).serving() as address:
            yield address
