"""Questions of an idempotent write: which requests are stored already, by an earlier try.

A request is found by the unique key of its last message, in the index of the brokers of its topic.
A log keeps a batch of messages whole or cuts its end off, so the last one stands for all.
[QueryMessageProcessor]
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from pyrmq.engine import Command, SendRequest
from pyrmq.errors import ClientError, ConnectError, PyrmqError, ResponseError
from pyrmq.escape import escape
from pyrmq.model.codes import RequestCode, ResponseCode
from pyrmq.model.properties import UNIQ_KEY
from pyrmq.model.record import decode_records
from pyrmq.model.retry import may_request_again
from pyrmq.net.address import parse_address
from pyrmq.net.client.blocking_channel import BlockingChannel
from pyrmq.net.client.protocol import Ext
from pyrmq.net.client.protocol import Request as Sent
from spark_ext.broker.cluster import Cluster

log = logging.getLogger(__name__)

ALL_TIMES = 2**63 - 1
INDEX_SETTING = "messageIndexEnable"

Place = tuple[str, str]
"""Topic and broker."""


class Questions:
    """Asks the masters of a topic's brokers, those of one round together. Every question is asked
    a bounded number of times."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._indexing: set[str] = set()
        """Brokers that index messages, or do not say."""

    def stored(self, requests: Sequence[SendRequest]) -> set[str]:
        """The keys of those that are stored. Raises ClientError, which names the broker, if one
        does not say or has no index."""
        left: dict[Place, list[str]] = {}
        for request in requests:
            assert request.key is not None
            for broker in self._brokers(request):
                left.setdefault((request.topic, broker), []).append(request.key)
        found: set[str] = set()
        tries = 0
        while left:
            failed = self._round(left, found, again=tries > 0)
            tries += 1
            for (_, broker), error in failed.items():
                seconds = self._cluster.policy.pause(tries) if may_request_again(error) else None
                if seconds is None:
                    raise _unknown(broker, error) from error
                log.warning("broker %s: %s; asking again", escape(broker), escape(error))
            if failed:
                self._cluster.channels.pause(self._cluster.policy.pause(tries) or 0)
            left = {place: left[place] for place in failed}
        return found

    def _brokers(self, request: SendRequest) -> Iterable[str]:
        """Those that may have the request. A topic without a broker is an error of its own."""
        if request.broker_name is not None:
            return (request.broker_name,)
        route = self._cluster.publish_route(request.topic)
        return sorted({queue.broker_name for queue in route.queues})

    def _round(
        self, wanted: dict[Place, list[str]], found: set[str], *, again: bool
    ) -> dict[Place, PyrmqError]:
        """Asks all at once, adds what is there to `found`. What failed, by place."""
        failed: dict[Place, PyrmqError] = {}
        asked: list[tuple[Place, BlockingChannel, Sent | None, list[tuple[str, Sent]]]] = []
        setting_asked: set[str] = set()
        for place, keys in wanted.items():
            topic, broker = place
            try:
                channel = self._channel(topic, broker, fresh=again)
                setting = None
                if broker not in self._indexing | setting_asked:
                    setting = channel.submit(RequestCode.GET_BROKER_CONFIG, {})
                    setting_asked.add(broker)
                sent = [(key, channel.submit(*_question(topic, key))) for key in keys]
                asked.append((place, channel, setting, sent))
            except PyrmqError as error:
                failed[place] = error
        timeout = self._cluster.access.timeout
        for place, channel, setting, sent in asked:
            topic, broker = place
            try:
                if setting is not None:
                    self._check_indexes(broker, channel.wait(setting, timeout))
                for key, request in sent:
                    if _is_there(channel.wait(request, timeout), topic, key):
                        found.add(key)
            except PyrmqError as error:
                failed[place] = error
        return failed

    def _channel(self, topic: str, broker: str, *, fresh: bool) -> BlockingChannel:
        address = self._cluster.publish_route(topic, fresh=fresh).master_of(broker)
        if address is None:
            raise ConnectError(f"it has no master in the route of topic {topic}")
        return self._cluster.channels.get(parse_address(address, "broker address"))

    def _check_indexes(self, broker: str, answer: Command) -> None:
        """Raises ClientError for a broker that does not index messages."""
        if answer.code == ResponseCode.SUCCESS:
            setting = _setting(bytes(answer.body))
            if setting == "false":
                raise ClientError(
                    f"it does not index messages ({INDEX_SETTING}=false), so it cannot say: set "
                    f"{INDEX_SETTING}=true there, or write without being idempotent"
                )
        else:
            error = ResponseError.of(answer.code, answer.remark or "")
            log.warning(
                "broker %s does not show its configuration (%s). It must have %s=true: without an "
                "index, repeated rows are stored again",
                escape(broker),
                escape(error),
                INDEX_SETTING,
            )
        self._indexing.add(broker)


class Repeats:
    """Leaves out requests that an earlier try of the task stored.

    An earlier try had at most `in_flight` requests under way, so it stored one of the first
    `in_flight` before it sent another. If none of these is there, this is the first try and nothing
    more is asked. Otherwise every request is asked for, `in_flight` at a time.
    """

    def __init__(self, questions: Questions, in_flight: int) -> None:
        self.skipped = 0
        """Messages that were left out."""
        self._questions = questions
        self._in_flight = in_flight
        self._waiting: list[SendRequest] = []
        self._is_first: bool | None = None

    def take(self, request: SendRequest) -> list[SendRequest]:
        """Requests that may be sent now, in the order in which they were taken."""
        if self._is_first:
            return [request]
        self._waiting.append(request)
        return self.rest() if len(self._waiting) >= self._in_flight else []

    def rest(self) -> list[SendRequest]:
        """Those that still wait and have to be sent. Raises as `Questions.stored`."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return []
        there = self._questions.stored(waiting)
        if self._is_first is None:
            self._is_first = not there
        self.skipped += sum(r.rows for r in waiting if r.key in there)
        return [r for r in waiting if r.key not in there]


def _question(topic: str, key: str) -> tuple[int, Ext]:
    return RequestCode.QUERY_MESSAGE, {
        "topic": topic,
        "key": key,
        "maxNum": 1,
        "beginTimestamp": 0,
        "endTimestamp": ALL_TIMES,
        "_UNIQUE_KEY_QUERY": True,
    }


def _is_there(answer: Command, topic: str, key: str) -> bool:
    """Whether the answer brings the message itself: an index knows only hashes of keys."""
    if answer.code == ResponseCode.QUERY_NOT_FOUND:
        return False
    if answer.code != ResponseCode.SUCCESS:
        raise ResponseError.of(answer.code, answer.remark or "")
    found = decode_records(answer.body, inflate_body=False)
    return any(m.topic == topic and m.properties.get(UNIQ_KEY) == key for m in found)


def _setting(text: bytes) -> str | None:
    """The value of messageIndexEnable in a broker's configuration."""
    for line in text.decode(errors="replace").splitlines():
        name, _, value = line.partition("=")
        if name.strip() == INDEX_SETTING:
            return value.strip().lower()
    return None


def _unknown(broker: str, error: PyrmqError) -> ClientError:
    return ClientError(
        f"broker {broker} does not say whether rows are stored already: {error}. Nothing more was "
        "sent; write again when it answers"
    )
