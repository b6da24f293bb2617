"""A broker process with pulls that wait on it, and one more whose answer is awaited."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benches.loopback.harness import Broker, server
from benches.loopback.proc import memory
from benches.stores import PROPERTIES, single_frame
from pyrmq.net.command import encode_request

PULL, CREATE_TOPIC, MAX_OFFSET = 11, 17, 30
SUSPEND_AND_SUBSCRIBE = 0x2 | 0x4
HOLD_MS = 3_000_000
TOPICS, QUEUES = 10, 100
"""Where the others wait: pulls of several groups on each of these queues."""
AWAITED, NOBODY = "Awaited", "Nobody"
"""A topic for the one pull, and a topic on which none waits."""
BODY = 1024
WINDOW = 64
"""Sends at a time on NOBODY."""


class Line:
    """A connection that reads answer by answer."""

    def __init__(self, broker: Broker) -> None:
        self._socket = socket.create_connection((broker.host, broker.port), 30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._left = bytearray()

    def send(self, frames: bytes) -> None:
        self._socket.sendall(frames)

    def answered(self) -> None:
        """The next answer is there; it is no refusal."""
        while len(self._left) < 4 or len(self._left) < 4 + self._length():
            piece = self._socket.recv(1 << 16)
            assert piece, "the broker closed the connection"
            self._left += piece
        end = 4 + self._length()
        (header,) = struct.unpack_from(">I", self._left, 4)
        said = json.loads(self._left[8 : 8 + (header & 0xFFFFFF)])
        del self._left[:end]
        assert said["code"] == 0, said

    def silent(self) -> bool:
        """Nothing but answers that were waited for has come."""
        return not self._left

    def _length(self) -> int:
        (length,) = struct.unpack_from(">I", self._left)
        return int(length)

    def close(self) -> None:
        self._socket.close()


def _pull(topic: str, queue_id: int, offset: int, group: str) -> bytes:
    return encode_request(
        PULL,
        1,
        {
            "consumerGroup": group,
            "topic": topic,
            "queueId": queue_id,
            "queueOffset": offset,
            "maxMsgNums": 32,
            "sysFlag": SUSPEND_AND_SUBSCRIBE,
            "commitOffset": 0,
            "suspendTimeoutMillis": HOLD_MS,
            "subscription": "*",
            "subVersion": 0,
            "expressionType": "TAG",
        },
    )


class Held:
    """A broker with `others` pulls that wait, spread over so many connections.

    `wake` is one message for the one pull of AWAITED, until that is answered; `hold` before it has
    the pull wait again.
    """

    def __init__(self, broker: Broker, others: int, connections: int, stack: ExitStack) -> None:
        assert broker.pid is not None
        self.pid = broker.pid
        self._broker = broker
        self._stack = stack
        self._sender, self._holder = self._line(), self._line()
        for n in range(TOPICS):
            self._create(f"Idle{n}", QUEUES)
        for topic in (AWAITED, NOBODY):
            self._create(topic, 1)
        self._offset = 0
        self._waits = False
        self._message = single_frame(AWAITED, 0, BODY, PROPERTIES)
        self._window = single_frame(NOBODY, 0, BODY, PROPERTIES) * WINDOW
        before = memory(self.pid).private
        self._lines = [self._line() for _ in range(min(connections, others))]
        for n, line in enumerate(self._lines):
            mine = range(n, others, connections)
            line.send(b"".join(self._idle(at) for at in mine) + self._question())
        for line in self._lines:
            line.answered()  # what was asked behind the pulls: they wait
        self.mib = memory(self.pid).private - before
        """What they take of the broker's memory, with their connections."""

    def _line(self) -> Line:
        line = Line(self._broker)
        self._stack.callback(line.close)
        return line

    def _create(self, topic: str, queues: int) -> None:
        fields: dict[str, str | int | bool] = {
            "topic": topic,
            "defaultTopic": "TBW102",
            "readQueueNums": queues,
            "writeQueueNums": queues,
            "perm": 6,
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": 0,
            "order": False,
        }
        self._sender.send(encode_request(CREATE_TOPIC, 1, fields))
        self._sender.answered()

    def _idle(self, at: int) -> bytes:
        group, queue = divmod(at, TOPICS * QUEUES)
        topic, queue_id = divmod(queue, QUEUES)
        return _pull(f"Idle{topic}", queue_id, 0, f"CG_idle{group}")

    def _question(self) -> bytes:
        return encode_request(MAX_OFFSET, 1, {"topic": AWAITED, "queueId": 0})

    def hold(self) -> None:
        if not self._waits:
            self._holder.send(_pull(AWAITED, 0, self._offset, "CG") + self._question())
            self._holder.answered()
            self._waits = True

    def wake(self) -> None:
        self._sender.send(self._message)
        self._holder.answered()
        self._sender.answered()
        self._offset += 1
        self._waits = False

    def arrive(self, count: int) -> None:
        """So many messages for a queue on which nothing waits, WINDOW in flight."""
        for _ in range(count // WINDOW):
            self._sender.send(self._window)
            for _ in range(WINDOW):
                self._sender.answered()

    def cpu_seconds(self) -> float:
        """Of all threads of the broker so far, to the nanosecond."""
        tasks = Path(f"/proc/{self.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9

    def still_there(self) -> bool:
        """None of the others was answered or closed meanwhile: what is asked now comes first."""
        for line in self._lines:
            line.send(self._question())
            line.answered()
        return all(line.silent() for line in self._lines)


@contextmanager
def held(others: int, connections: int = 1) -> Iterator[Held]:
    with ExitStack() as stack:
        broker = stack.enter_context(server())
        yield Held(broker, others, connections, stack)
