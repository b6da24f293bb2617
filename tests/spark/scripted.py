"""A name server and brokers of lists behind one port, for what a real one does not do on request.

`ScriptedCluster` has queues of records, says routes, serves pulls and takes sends. `change`
replaces the answer to a request code: a function of the command that gives an answer, None for the
usual one, `HANG_UP` to close the connection instead, or `SILENCE` to say nothing.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.support.records import MAGIC_V1, Record, encode_properties, encode_record
from tests.support.wire import Command, FrameReader, encode

Queue = tuple[str, str, int]
"""topic, broker, queue id."""
HANG_UP = Command(-1)
SILENCE = Command(-2)
BORN = 1_700_000_000_000
_EMPTY = Record(
    size=0,
    magic=MAGIC_V1,
    body_crc=0,
    queue_id=0,
    flag=0,
    queue_offset=0,
    physical_offset=0,
    sys_flag=0,
    born_timestamp=BORN,
    born_host=("127.0.0.1", 40000),
    store_timestamp=BORN,
    store_host=("127.0.0.1", 10911),
    reconsume_times=0,
    prepared_offset=0,
    body=b"",
    topic="T",
    properties_raw=b"",
)


class ScriptedCluster:
    """`topics`: topic -> broker -> number of queues; `batch`: most messages of a pull."""

    def __init__(self, topics: dict[str, dict[str, int]], batch: int = 32) -> None:
        self.topics = topics
        self.batch = batch
        self.records: dict[Queue, list[Record]] = defaultdict(list)
        self.first: dict[Queue, int] = defaultdict(int)
        """Offsets below this one are deleted."""
        self.ids: dict[str, int] = {}
        """Broker ids; those that are not named are masters (0)."""
        self.asked: list[Command] = []
        self.change: dict[int, Callable[[Command], Command | None]] = {}
        self.address = ""
        self.serves: dict[int, socket.socket] = {}
        """The connection of each serving thread."""
        self._end = 0
        self._lock = threading.Lock()

    def put(
        self, body: bytes, topic: str = "T", broker: str = "a", queue: int = 0, **properties: str
    ) -> Record:
        records = self.records[topic, broker, queue]
        record = replace(
            _EMPTY,
            topic=topic,
            queue_id=queue,
            queue_offset=len(records),
            physical_offset=self._end,
            store_timestamp=BORN + self._end,
            body=body,
            properties_raw=encode_properties(properties).encode(),
        )
        record = replace(record, size=len(encode_record(record)))
        self._end += record.size
        records.append(record)
        return record

    def bodies(self, topic: str = "T") -> list[bytes]:
        """What is stored of a topic, queue by queue."""
        return [r.body for q in sorted(self.records) if q[0] == topic for r in self.records[q]]

    # -- answers ----------------------------------------------------------------------------------

    def _answer(self, c: Command) -> Command:
        with self._lock:
            self.asked.append(c)
            changed = self.change[c.code](c) if c.code in self.change else None
            if changed is not None:
                return changed
            ways = {
                11: self._pull, 29: self._at_time, 30: self._max, 31: self._min, 105: self._route,
                106: self._brokers, 206: self._list, 310: self.store, 320: self.store,
            }  # fmt: skip
            return ways[c.code](c)

    def _route(self, c: Command) -> Command:
        brokers = self.topics.get(c.ext["topic"])
        if brokers is None:
            return c.reply(17)
        route = {
            "brokerDatas": [
                {
                    "brokerAddrs": {str(self.ids.get(b, 0)): self.address},
                    "brokerName": b,
                    "cluster": "C",
                }
                for b in brokers
            ],
            "queueDatas": [
                {"brokerName": b, "perm": 6, "readQueueNums": n, "writeQueueNums": n}
                for b, n in brokers.items()
            ],
        }
        return c.reply(0, {}, json.dumps(route).encode())

    def _list(self, c: Command) -> Command:
        return c.reply(0, {}, json.dumps({"topicList": sorted(self.topics)}).encode())

    def _brokers(self, c: Command) -> Command:
        names = {b for brokers in self.topics.values() for b in brokers}
        info = {"clusterAddrTable": {"C": sorted(names)}, "brokerAddrTable": {n: {} for n in names}}
        return c.reply(0, {}, json.dumps(info).encode())

    @staticmethod
    def queue_of(c: Command) -> Queue:
        return c.ext["topic"], c.ext["bname"], int(c.ext["queueId"])

    def _max(self, c: Command) -> Command:
        return c.reply(0, {"offset": str(len(self.records[self.queue_of(c)]))})

    def _min(self, c: Command) -> Command:
        return c.reply(0, {"offset": str(self.first[self.queue_of(c)])})

    def _at_time(self, c: Command) -> Command:
        queue, time = self.records[self.queue_of(c)], int(c.ext["timestamp"])
        after = [r.queue_offset for r in queue if r.store_timestamp >= time]
        return c.reply(0, {"offset": str(after[0] if after else len(queue))})

    def bounds(self, c: Command) -> dict[str, str]:
        queue = self.queue_of(c)
        first, end = self.first[queue], len(self.records[queue])
        return {"minOffset": str(first), "maxOffset": str(end), "suggestWhichBrokerId": "0"}

    def _pull(self, c: Command) -> Command:
        queue, ext = self.queue_of(c), self.bounds(c)
        first, end = self.first[queue], len(self.records[queue])
        at = int(c.ext["queueOffset"])
        if at < first or at > end:
            return c.reply(21, ext | {"nextBeginOffset": str(first if at < first else end)})
        if at == end:
            return c.reply(19, ext | {"nextBeginOffset": str(end)})
        found = self.records[queue][at : at + min(self.batch, int(c.ext["maxMsgNums"]))]
        body = b"".join(encode_record(r) for r in found)
        return c.reply(0, ext | {"nextBeginOffset": str(at + len(found))}, body)

    def store(self, c: Command) -> Command:
        """Takes a send, single or batch."""
        topic, broker, queue = c.ext["b"], c.ext["n"], int(c.ext["e"])
        self.topics.setdefault(topic, {"a": 4})
        first = len(self.records[topic, broker, queue])
        bodies = entries(c.body) if c.ext["m"] == "true" else [c.body]
        for body in bodies:
            self.put(body, topic, broker, queue)
        ext = {"queueId": str(queue), "queueOffset": str(first), "msgId": "00"}
        return c.reply(0, ext)

    # -- on a socket ------------------------------------------------------------------------------

    @contextlib.contextmanager
    def serving(self) -> Iterator[str]:
        """Answers on a loopback port until the end of the block; "host:port"."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
            self.address = f"127.0.0.1:{listener.getsockname()[1]}"
            yield self.address
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
        self.serves[threading.get_ident()] = connection
        with connection, contextlib.suppress(OSError):
            while data := connection.recv(1 << 16):
                for command in reader.feed(data):
                    answer = self._answer(command)
                    if answer is HANG_UP:
                        return
                    if answer is not SILENCE:
                        connection.sendall(encode(answer))


def entries(body: bytes) -> list[bytes]:
    """The bodies in a batch. [MessageDecoder.decodeMessages]"""
    out = []
    while body:
        size, n = int.from_bytes(body[:4], "big"), int.from_bytes(body[16:20], "big")
        out.append(body[20 : 20 + n])
        body = body[size:]
    return out


def times(
    count: int, answer: Callable[[Command], Command | None]
) -> Callable[[Command], Command | None]:
    """An answer that is given so many times; then the usual one."""
    left = [count]

    def change(c: Command) -> Command | None:
        left[0] -= 1
        return answer(c) if left[0] >= 0 else None

    return change
