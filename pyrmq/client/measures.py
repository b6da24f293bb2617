"""What clients measure: RocketMQ 5's names of client metrics, with their labels and buckets.
[MessageMeterInterceptor, HistogramEnum, GaugeEnum]

Where the figures go is another's: `pyrmq.client.metrics` (Prometheus) or `pyrmq.otel`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from weakref import WeakSet

from pyrmq.client.telemetry import ClientInfo, Operation, Work
from pyrmq.model.record import ReceivedMessage

TOPIC, CLIENT_ID, GROUP, STATUS = "topic", "client_id", "consumer_group", "invocation_status"
OTHERS = "_other"
"""The topic of what is more than `max_series`."""
MAX_SERIES = 1000
MAX_WAITING = 100_000
"""Messages whose time of arrival is known at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """A histogram; its values and bounds are milliseconds."""

    name: str
    text: str
    labels: tuple[str, ...]
    bounds: tuple[float, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Gauge:
    """A gauge of a consumer."""

    name: str
    text: str
    unit: str
    labels: tuple[str, ...] = (TOPIC, GROUP, CLIENT_ID)


SEND_COST_TIME = Histogram(
    "rocketmq_send_cost_time",
    "Duration of a send with all its attempts, in ms, once for each message",
    (TOPIC, CLIENT_ID, STATUS),
    (1, 5, 10, 20, 50, 200, 500),
)
DELIVERY_LATENCY = Histogram(
    "rocketmq_delivery_latency",
    "Time from when a broker stored a message until it came to the consumer, in ms, for the first "
    "message of each answer",
    (TOPIC, GROUP, CLIENT_ID),
    (1, 5, 10, 20, 50, 200, 500),
)
AWAIT_TIME = Histogram(
    "rocketmq_await_time",
    "Time that a message waited in the consumer before it was consumed, in ms",
    (TOPIC, GROUP, CLIENT_ID),
    (1, 5, 20, 100, 1000, 5000, 10_000),
)
PROCESS_TIME = Histogram(
    "rocketmq_process_time",
    "Duration of consuming a message, in ms",
    (TOPIC, GROUP, CLIENT_ID, STATUS),
    (1, 5, 10, 100, 1000, 10_000, 60_000),
)
CACHED_MESSAGES = Gauge(
    "rocketmq_consumer_cached_messages", "Messages that wait in the consumer", "{message}"
)
CACHED_BYTES = Gauge(
    "rocketmq_consumer_cached_bytes", "Bytes of the bodies of messages that wait", "By"
)
HISTOGRAMS = (SEND_COST_TIME, DELIVERY_LATENCY, AWAIT_TIME, PROCESS_TIME)
Record = Callable[[Histogram, tuple[str, ...], float], None]
"""Takes a value in ms, with the values of the labels."""


class Fold:
    """Keeps the number of series within a limit: a topic that would make one more is OTHERS."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[tuple[object, ...]] = set()

    def topic(self, kind: object, topic: str, *labels: str) -> str:
        """The topic, or OTHERS."""
        key = (kind, topic, *labels)
        if key in self._known:
            return topic
        if len(self._known) >= self._most:
            return OTHERS
        self._known.add(key)
        return topic


class Measures:
    """A `Telemetry` that calls `record` with what it measures."""

    def __init__(self, record: Record, max_series: int = MAX_SERIES) -> None:
        self._record = record
        self._fold = {histogram: Fold(max_series) for histogram in HISTOGRAMS}
        self._consumers: WeakSet[ClientInfo] = WeakSet()
        self._arrived: dict[tuple[object, ...], float] = {}

    def opened(self, client: ClientInfo) -> None:
        if client.consumes:
            self._consumers.add(client)

    def begin(self, operation: Operation) -> None:
        if operation.work not in (Work.PROCESS, Work.RECEIVE):
            return
        client, now = operation.client, time.monotonic()
        for message in operation.messages:
            since = self._arrived.pop(_place(client, message), None)
            if since is not None:
                self._tell(AWAIT_TIME, message.topic, (now - since) * 1000, *_labels(client))

    def end(self, operation: Operation) -> None:
        work, client = operation.work, operation.client
        took = operation.seconds * 1000
        status = "success" if operation.error is None and not operation.failure else "failure"
        if work is Work.SEND or work is Work.REQUEST:
            for _ in range(operation.count):
                self._tell(SEND_COST_TIME, operation.topic, took, client.client_id, status)
        elif work is Work.PROCESS:
            for message in operation.messages:
                self._tell(PROCESS_TIME, message.topic, took, *_labels(client), status)

    def forget(self, operation: Operation) -> None:
        pass

    def arrived(self, client: ClientInfo, messages: Sequence[ReceivedMessage], waits: bool) -> None:
        first = messages[0]
        latency = max(time.time_ns() // 1_000_000 - first.store_timestamp, 0)
        self._tell(DELIVERY_LATENCY, first.topic, latency, *_labels(client))
        if waits:
            now = time.monotonic()
            self._arrived.update((_place(client, message), now) for message in messages)
        while len(self._arrived) > MAX_WAITING:  # what was given up, the oldest first
            del self._arrived[next(iter(self._arrived))]

    def _tell(self, histogram: Histogram, topic: str, value: float, *labels: str) -> None:
        topic = self._fold[histogram].topic(histogram, topic, *labels)
        self._record(histogram, (topic, *labels), value)

    def cached(self) -> dict[tuple[str, ...], tuple[int, int]]:
        """Messages and bytes that wait, by the labels of the gauges; for any thread."""
        found: dict[tuple[str, ...], tuple[int, int]] = {}
        for client in list(self._consumers):
            for topic, count, size in client.cached():
                labels = (topic, *_labels(client))
                before = found.get(labels, (0, 0))
                found[labels] = before[0] + count, before[1] + size
        return found


def _labels(client: ClientInfo) -> tuple[str, str]:
    return client.group, client.client_id


def _place(client: ClientInfo, message: ReceivedMessage) -> tuple[object, ...]:
    return client, message.broker_name, message.topic, message.queue_id, message.queue_offset
