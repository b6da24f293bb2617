"""A blocking-socket client for tests: raw bytes, single commands, and the usual requests.

One ``Client`` is one TCP connection. Every wait has a deadline. Nothing here retries, hides or
repairs: a lost connection is ``Closed``, an unexpected code is for the test to judge.
Field names: remoting sheet, section 3.
"""

from __future__ import annotations

import json
import socket
import ssl
import struct
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from tests.support.records import Record, decode_records, encode_batch, encode_properties
from tests.support.wire import FLAG_ONEWAY, JSON, Command, FrameReader, encode

SEND_MESSAGE = 10
PULL_MESSAGE = 11
QUERY_CONSUMER_OFFSET = 14
UPDATE_CONSUMER_OFFSET = 15
UPDATE_AND_CREATE_TOPIC = 17
SEARCH_OFFSET_BY_TIMESTAMP = 29
GET_MAX_OFFSET = 30
GET_MIN_OFFSET = 31
VIEW_MESSAGE_BY_ID = 33
HEART_BEAT = 34
UNREGISTER_CLIENT = 35
LOCK_BATCH_MQ = 41
UNLOCK_BATCH_MQ = 42
REGISTER_BROKER = 103
GET_ROUTEINFO_BY_TOPIC = 105
SEND_MESSAGE_V2 = 310
SEND_BATCH_MESSAGE = 320

PULL_COMMIT = 0x1
PULL_SUSPEND = 0x2
PULL_SUBSCRIPTION = 0x4

_SEND_NAMES = {
    "a": "producerGroup", "b": "topic", "c": "defaultTopic", "d": "defaultTopicQueueNums",
    "e": "queueId", "f": "sysFlag", "g": "bornTimestamp", "h": "flag", "i": "properties",
    "j": "reconsumeTimes", "k": "unitMode", "m": "batch",
}  # fmt: skip


class Closed(Exception):
    """The peer closed or reset the connection."""


@dataclass(frozen=True, slots=True)
class Pulled:
    """A pull answer; the offsets are -1 where the answer has none."""

    code: int
    next_offset: int
    min_offset: int
    max_offset: int
    records: list[Record]


def send_command(
    topic: str,
    body: bytes = b"hello",
    *,
    queue_id: int | str = 0,
    properties: Mapping[str, str] | str = "",
    code: int = SEND_MESSAGE_V2,
    serialize: int = JSON,
    queues: int = 4,
    batch: bool = False,
    change: Mapping[str, str | None] | None = None,
) -> Command:
    """A send request of any kind; ``change`` sets (None: removes) ext fields by letter."""
    text = properties if isinstance(properties, str) else encode_properties(properties)
    ext: dict[str, str | None] = {
        "a": "PG_test", "b": topic, "c": "TBW102", "d": str(queues), "e": str(queue_id),
        "f": "0", "g": str(int(time.time() * 1000)), "h": "0", "i": text, "j": "0",
        "k": "false", "m": "true" if batch else "false",
    }  # fmt: skip
    ext |= change or {}
    present = {key: value for key, value in ext.items() if value is not None}
    if code == SEND_MESSAGE:
        present = {_SEND_NAMES[key]: value for key, value in present.items()}
    return Command(code, present, body, serialize=serialize)


def batch_command(
    topic: str, messages: Iterable[tuple[bytes, Mapping[str, str]]], **options: Any
) -> Command:
    """SEND_BATCH_MESSAGE with the given (body, properties) pairs."""
    body = encode_batch(messages)
    return send_command(topic, body, code=SEND_BATCH_MESSAGE, batch=True, **options)


def pull_command(
    topic: str,
    queue_id: int | str,
    offset: int | str,
    *,
    group: str = "CG_test",
    maximum: int | str = 32,
    sys_flag: int = PULL_SUBSCRIPTION,
    suspend_ms: int = 0,
    subscription: str = "*",
    serialize: int = JSON,
    change: Mapping[str, str | None] | None = None,
) -> Command:
    """PULL_MESSAGE that carries its subscription, so that no heartbeat is needed."""
    ext: dict[str, str | None] = {
        "consumerGroup": group, "topic": topic, "queueId": str(queue_id),
        "queueOffset": str(offset), "maxMsgNums": str(maximum), "sysFlag": str(sys_flag),
        "commitOffset": "0", "suspendTimeoutMillis": str(suspend_ms),
        "subscription": subscription, "subVersion": "0", "expressionType": "TAG",
    }  # fmt: skip
    ext |= change or {}
    present = {key: value for key, value in ext.items() if value is not None}
    return Command(PULL_MESSAGE, present, serialize=serialize)


def pulled(answer: Command) -> Pulled:
    """What the answer to a pull says."""
    names = ("nextBeginOffset", "minOffset", "maxOffset")
    following, first, end = (int(answer.ext.get(name, -1)) for name in names)
    return Pulled(answer.code, following, first, end, decode_records(answer.body))


class Client:
    """One connection. Requests of the peer (flag bit 0 clear) are kept in ``pushed``."""

    def __init__(
        self,
        address: tuple[str, int],
        timeout: float = 30.0,
        *,
        source: str | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`source`: the address to come from, one of this machine; `tls`: speaks TLS."""
        self.timeout = timeout
        self.pushed: list[Command] = []
        self._socket = socket.create_connection(
            address, timeout, source_address=(source, 0) if source else None
        )
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self._socket = tls.wrap_socket(self._socket, server_hostname=address[0])
        self._reader = FrameReader()
        self._answers: deque[Command] = deque()
        self._opaque = 0

    @property
    def address(self) -> str:
        """This end of the connection, as the peer writes it."""
        host, port = self._socket.getsockname()[:2]
        return f"{host}:{port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    # -- bytes ----------------------------------------------------------------------------------

    def send_raw(self, data: bytes) -> None:
        self._socket.settimeout(self.timeout)
        try:
            self._socket.sendall(data)
        except (ConnectionError, BrokenPipeError) as error:
            raise Closed(str(error)) from None

    def send_some(self, data: bytes, wait: float = 0.5) -> int:
        """Send what the peer takes; 0 when its and our buffers stay full for ``wait`` seconds."""
        self._socket.settimeout(wait)
        try:
            return self._socket.send(data)
        except (TimeoutError, BlockingIOError):
            return 0

    def finish(self) -> None:
        """Close the sending half: the peer reads end of file."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError as error:
            raise Closed(str(error)) from None

    def reset(self) -> None:
        """Close with a TCP reset instead of an orderly end."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def close(self) -> None:
        self._socket.close()

    def until_closed(self, timeout: float | None = None) -> list[Command]:
        """All answers up to the peer's close; TimeoutError when it does not close in time."""
        deadline = time.monotonic() + (timeout or self.timeout)
        answers = []
        while True:
            try:
                answers.append(self.receive(deadline - time.monotonic()))
            except Closed:
                return answers

    # -- commands -------------------------------------------------------------------------------

    def post(self, command: Command) -> int:
        """Send without waiting; returns the opaque that the answer will carry."""
        self._opaque += 1
        command.opaque = self._opaque
        self.send_raw(encode(command))
        return command.opaque

    def receive(self, timeout: float | None = None) -> Command:
        """The next response on this connection, whatever its opaque."""
        deadline = time.monotonic() + (self.timeout if timeout is None else timeout)
        while not self._answers:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"no answer within {timeout or self.timeout} s")
            self._take(left)
        return self._answers.popleft()

    def _take(self, timeout: float) -> None:
        """Receive once; TimeoutError when nothing comes."""
        self._socket.settimeout(timeout)
        try:
            data = self._socket.recv(1 << 18)
        except ConnectionError as error:
            raise Closed(str(error)) from None
        if not data:
            raise Closed(f"end of stream, {self._reader.pending} bytes of a frame left")
        for command in self._reader.feed(data):
            (self._answers if command.is_response else self.pushed).append(command)

    def wait_pushed(self, timeout: float) -> None:
        """Wait until the peer has sent something by itself."""
        deadline = time.monotonic() + timeout
        known = len(self.pushed)
        while len(self.pushed) == known:
            self._take(max(deadline - time.monotonic(), 0.001))

    def request(self, command: Command, timeout: float | None = None) -> Command:
        """Send one command and return its answer, which must be the next one to arrive."""
        opaque = self.post(command)
        answer = self.receive(timeout)
        assert answer.opaque == opaque, f"answer to {answer.opaque} instead of {opaque}"
        assert answer.serialize == command.serialize, "answer in another serialize type"
        return answer

    def oneway(self, command: Command) -> None:
        command.flag |= FLAG_ONEWAY
        self.post(command)

    # -- the usual requests -----------------------------------------------------------------------

    def call(self, code: int, body: bytes = b"", **ext: object) -> Command:
        """Any request with the given ext fields as text."""
        return self.request(Command(code, {key: str(value) for key, value in ext.items()}, body))

    def send(self, topic: str, body: bytes = b"hello", **options: Any) -> Command:
        return self.request(send_command(topic, body, **options))

    def pull(self, topic: str, queue_id: int, offset: int, **options: Any) -> Pulled:
        return pulled(self.request(pull_command(topic, queue_id, offset, **options)))

    def pull_all(self, topic: str, queue_id: int, start: int, end: int) -> list[Record]:
        """Records of queue offsets start..end-1; fails when the queue does not hold them all."""
        found: list[Record] = []
        while start < end:
            pulled = self.pull(topic, queue_id, start)
            where = f"{topic}-{queue_id} from {start} to {end}"
            assert pulled.code == 0, f"{where}: pull code {pulled.code}, {pulled}"
            assert pulled.records, f"{where}: empty answer"
            assert pulled.next_offset == start + len(pulled.records), f"{where}: {pulled}"
            found += pulled.records
            start = pulled.next_offset
        return found

    def max_offset(self, topic: str, queue_id: int) -> int:
        return self._offset(GET_MAX_OFFSET, topic, queue_id)

    def min_offset(self, topic: str, queue_id: int) -> int:
        return self._offset(GET_MIN_OFFSET, topic, queue_id)

    def heartbeat(self, client_id: str, group: str, *topics: str) -> Command:
        """Register as a push consumer of all tags of the topics."""
        subscriptions = [
            {"classFilterMode": False, "codeSet": [], "expressionType": "TAG", "subString": "*",
             "subVersion": 1, "tagsSet": [], "topic": topic}
            for topic in topics
        ]  # fmt: skip
        consumer = {
            "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "consumeType": "CONSUME_PASSIVELY",
            "groupName": group, "messageModel": "CLUSTERING",
            "subscriptionDataSet": subscriptions, "unitMode": False,
        }  # fmt: skip
        data = {"clientID": client_id, "consumerDataSet": [consumer], "producerDataSet": []}
        return self.call(HEART_BEAT, json.dumps(data).encode())

    def _offset(self, code: int, topic: str, queue_id: int) -> int:
        answer = self.call(code, topic=topic, queueId=queue_id)
        where = f"request {code} of {topic}-{queue_id}"
        assert answer.code == 0, f"{where}: {answer.code} {answer.remark}"
        return int(answer.ext["offset"])
