"""A broker of lists: as much of one as transactions need, with nothing checked and nothing decided.

It answers the requests that `pyrmq admin txn` sends, from queue 0 of each topic; `change` replaces
answers, for brokers that lie. What it answers is what Apache RocketMQ 5.3.3 does.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from tests.support.records import MAGIC_V1, Record, encode_properties, encode_record
from tests.support.wire import Command, FrameReader, encode

HALF = "RMQ_SYS_TRANS_HALF_TOPIC"
OP = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
DISCARDED = "TRANS_CHECK_MAX_TIME_TOPIC"
GROUP = "CID_RMQ_SYS_TRANS"
HOST = ("127.0.0.1", 10911)
BORN = 1_700_000_000_000


class FakeBroker:
    """`batch` is how many messages a pull brings at most."""

    def __init__(self, batch: int = 32) -> None:
        self.batch = batch
        self.queues: dict[str, list[Record]] = defaultdict(list)
        self.first: dict[str, int] = defaultdict(int)
        """Offsets below this one are deleted."""
        self.log: dict[int, Record] = {}
        self.offsets: dict[str, int] = {}
        """Of the group that says how far transactions are settled, by topic."""
        self.indexed: int | None = None
        """Physical offset up to which the index knows messages, None for all."""
        self.info: dict[str, str] = {}
        self.asked: list[Command] = []
        self.change: dict[int, Callable[[Command], Command]] = {}
        self._end = 0

    def put(
        self,
        topic: str,
        body: bytes = b"",
        properties: Mapping[str, str] | None = None,
        *,
        born: int = BORN,
        **change: object,
    ) -> Record:
        queue = self.queues[topic]
        record = Record(
            size=0,
            magic=MAGIC_V1,
            body_crc=0,
            queue_id=0,
            flag=0,
            queue_offset=len(queue),
            physical_offset=self._end,
            sys_flag=0,
            born_timestamp=born,
            born_host=("127.0.0.1", 40000),
            store_timestamp=BORN + self._end,
            store_host=HOST,
            reconsume_times=0,
            prepared_offset=0,
            body=body,
            topic=topic,
            properties_raw=encode_properties(properties or {}).encode(),
        )
        record = replace(record, **change)  # type: ignore[arg-type]
        record = replace(record, size=len(encode_record(record)))
        self._end += record.size
        queue.append(record)
        self.log[record.physical_offset] = record
        return record

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

    # -- answers ----------------------------------------------------------------------------------

    def answer(self, command: Command) -> Command:
        self.asked.append(command)
        if command.code in self.change:
            return self.change[command.code](command)
        ways = {
            11: self._pull, 12: self._query, 14: self._group_offset, 28: self._info,
            29: self._at_time, 30: self._max, 31: self._min, 33: self._view, 37: self._end_it,
            323: self._resume,
        }  # fmt: skip
        way = ways.get(command.code)
        return way(command) if way else command.reply(3)

    def _group_offset(self, c: Command) -> Command:
        assert c.ext["consumerGroup"] == GROUP
        found = self.offsets.get(c.ext["topic"])
        return c.reply(22) if found is None else c.reply(0, {"offset": str(found)})

    def _max(self, c: Command) -> Command:
        return c.reply(0, {"offset": str(len(self.queues.get(c.ext["topic"], ())))})

    def _min(self, c: Command) -> Command:
        return c.reply(0, {"offset": str(self.first[c.ext["topic"]])})

    def _at_time(self, c: Command) -> Command:
        time, queue = int(c.ext["timestamp"]), self.queues.get(c.ext["topic"], [])
        after = [r.queue_offset for r in queue if r.store_timestamp >= time]
        return c.reply(0, {"offset": str(after[0] if after else len(queue))})

    def _pull(self, c: Command) -> Command:
        if c.ext["topic"] not in self.queues:
            return c.reply(17)
        queue, first = self.queues[c.ext["topic"]], self.first[c.ext["topic"]]
        at, end = int(c.ext["queueOffset"]), len(queue)
        ext = {"minOffset": str(first), "maxOffset": str(end), "suggestWhichBrokerId": "0"}
        if at < first or at > end:
            return c.reply(21, ext | {"nextBeginOffset": str(first if at < first else end)})
        if at == end:
            return c.reply(19, ext | {"nextBeginOffset": str(end)})
        found = queue[at : at + min(self.batch, int(c.ext["maxMsgNums"]))]
        body = b"".join(encode_record(r) for r in found)
        return c.reply(0, ext | {"nextBeginOffset": str(at + len(found))}, body)

    def _view(self, c: Command) -> Command:
        found = self.log.get(int(c.ext["offset"]))
        return c.reply(1) if found is None else c.reply(0, {}, encode_record(found))

    def _query(self, c: Command) -> Command:
        found = [
            r
            for r in self.queues.get(c.ext["topic"], ())
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

    # -- on a socket ------------------------------------------------------------------------------

    @contextlib.contextmanager
    def serving(self) -> Iterator[str]:
        """Answers on a loopback port until the end of the block; "host:port"."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
            yield f"127.0.0.1:{listener.getsockname()[1]}"
            listener.shutdown(socket.SHUT_RDWR)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        reader = FrameReader()
        with connection, contextlib.suppress(OSError):
            while data := connection.recv(1 << 16):
                for command in reader.feed(data):
                    connection.sendall(encode(self.answer(command)))
