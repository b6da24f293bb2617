"""A name server and brokers of lists behind one port, for what real ones do not do on request."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
from collections.abc import Callable, Iterator

from tests.support.records import Record, decode_properties, encode_record
from tests.support.scripted.lists import RecordLists
from tests.support.scripted.script import route
from tests.support.scripted.sockets import SocketServer
from tests.support.wire import Command

Queue = tuple[str, str, int]
"""topic, broker, queue id."""


class ScriptedCluster(RecordLists[Queue]):
    """`topics`: topic -> broker -> number of queues. It says routes, serves pulls, takes sends."""

    def __init__(
        self,
        topics: dict[str, dict[str, int]],
        batch: int = 32,
        secure: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(batch)
        self.topics = topics
        self.ids: dict[str, int] = {}
        """Broker ids; those that are not named are masters (0)."""
        self.address = ""
        self._server = SocketServer(self, secure)

    @property
    def serves(self) -> dict[int, socket.socket]:
        """The connection of each serving thread."""
        return self._server.serves

    def key_of(self, c: Command) -> Queue:
        return c.ext["topic"], c.ext["bname"], int(c.ext["queueId"])

    def put(
        self, body: bytes, topic: str = "T", broker: str = "a", queue: int = 0, **properties: str
    ) -> Record:
        return self.append((topic, broker, queue), topic, queue, body, properties)

    def bodies(self, topic: str = "T") -> list[bytes]:
        """What is stored of a topic, queue by queue."""
        return [r.body for q in sorted(self.records) if q[0] == topic for r in self.records[q]]

    def answers(self) -> dict[int, Callable[[Command], Command]]:
        return super().answers() | {
            12: self._query, 26: self._config, 105: self._route, 106: self._brokers,
            206: self._list, 310: self.store, 320: self.store,
        }  # fmt: skip

    def _route(self, c: Command) -> Command:
        brokers = self.topics.get(c.ext["topic"])
        if brokers is None:
            return c.reply(17)
        addresses = {b: {self.ids.get(b, 0): self.address} for b in brokers}
        return c.reply(0, {}, json.dumps(route(brokers, addresses)).encode())

    def _list(self, c: Command) -> Command:
        return c.reply(0, {}, json.dumps({"topicList": sorted(self.topics)}).encode())

    def _brokers(self, c: Command) -> Command:
        names = {b for brokers in self.topics.values() for b in brokers}
        info = {"clusterAddrTable": {"C": sorted(names)}, "brokerAddrTable": {n: {} for n in names}}
        return c.reply(0, {}, json.dumps(info).encode())

    def _query(self, c: Command) -> Command:
        """Messages with a unique key: all brokers have one address, so those of all of them."""
        found = [
            record
            for (topic, _, _), records in self.records.items()
            if topic == c.ext["topic"]
            for record in records
            if record.properties.get("UNIQ_KEY") == c.ext["key"]
        ]
        return c.reply(0, {}, b"".join(map(encode_record, found))) if found else c.reply(22)

    def _config(self, c: Command) -> Command:
        return c.reply(0, {}, b"brokerName=a\nmessageIndexEnable=true\n")

    def store(self, c: Command) -> Command:
        """Takes a send, single or batch."""
        topic, broker, queue = c.ext["b"], c.ext["n"], int(c.ext["e"])
        self.topics.setdefault(topic, {"a": 4})
        first = len(self.records[topic, broker, queue])
        batch = c.ext["m"] == "true"
        messages = messages_in(c.body) if batch else [(c.body, decode_properties(c.ext["i"]))]
        for body, properties in messages:
            self.append((topic, broker, queue), topic, queue, body, properties)
        ext = {"queueId": str(queue), "queueOffset": str(first), "msgId": "00"}
        return c.reply(0, ext)

    @contextlib.contextmanager
    def serving(self) -> Iterator[str]:
        """Answers on a loopback port until the end of the block; "host:port"."""
        with self._server.serving() as self.address:
            yield self.address


def entries(body: bytes) -> list[bytes]:
    """The bodies in a batch."""
    return [one for one, _ in messages_in(body)]


def messages_in(body: bytes) -> list[tuple[bytes, dict[str, str]]]:
    """Bodies and properties of a batch. [MessageDecoder.decodeMessages]"""
    out = []
    while body:
        size, n = int.from_bytes(body[:4], "big"), int.from_bytes(body[16:20], "big")
        out.append((body[20 : 20 + n], decode_properties(body[22 + n : size].decode())))
        body = body[size:]
    return out
