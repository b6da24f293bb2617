"""What the driver and the tasks ask a cluster: where topics are, how far their queues reach.

Every question is asked a bounded number of times; what is raised then names the server.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pyrmq.engine import Command
from pyrmq.errors import (
    ClientError,
    ConnectError,
    ProtocolError,
    PyrmqError,
    RequestTimeoutError,
    ResponseError,
    TopicNotExistError,
)
from pyrmq.escape import escape
from pyrmq.model.codes import RequestCode, ResponseCode
from pyrmq.model.message import MessageQueue
from pyrmq.model.route import MASTER_ID, TopicRoute
from pyrmq.net import fastjson
from pyrmq.net.address import Address, format_address, parse_address
from spark_ext.broker.remoting import Connection, Connections, Ext

log = logging.getLogger(__name__)

BACKOFF = (0.1, 2.0)
"""Seconds before the second try; doubled for each further one up to the last."""
PIPELINE = 256
"""Questions under way on one connection."""
MAX_OFFSET = 2**63 - 1


def pause(tries: int) -> None:
    """Before another try: `tries` have failed."""
    time.sleep(min(BACKOFF[0] * 2 ** (tries - 1), BACKOFF[1]))


@dataclass(frozen=True)
class Access:
    """How to reach a cluster; travels to the tasks."""

    name_servers: tuple[Address, ...]
    timeout: float = 10.0
    """Seconds that an answer may take."""
    retries: int = 3
    """Further tries after one that failed."""
    masters: bool = False
    """Whether only masters are asked: a replica may be behind."""

    def text(self) -> str:
        return ";".join(format_address(a) for a in self.name_servers)


class Cluster:
    """A context manager; connections are opened when they are needed."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self.connections = Connections()
        self._routes: dict[str, TopicRoute] = {}

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *error: object) -> None:
        self.connections.close()

    def _ask_name_server(self, code: int, ext: Ext) -> Command:
        """The first that answers with success. TopicNotExistError once all were asked: one that
        has just started knows nothing yet."""
        failure: PyrmqError | None = None
        absent: PyrmqError | None = None
        for tries in range(self.access.retries + 1):
            if tries:
                pause(tries)
            for address in self.access.name_servers:
                try:
                    connection = self.connections.get(address)
                    answer = self._wait(connection, connection.submit(code, ext))
                except PyrmqError as error:
                    failure = error
                    continue
                if answer.code == ResponseCode.SUCCESS:
                    return answer
                failure = ResponseError.of(answer.code, answer.remark or "")
                if answer.code == ResponseCode.TOPIC_NOT_EXIST:
                    absent = failure
            if absent is not None:
                raise absent
        raise ConnectError(
            f"no name server of nameServer={self.access.text()} answered: {failure}"
        ) from failure

    def _wait(self, connection: Connection, number: int) -> Command:
        """An answer. A connection that gives none may be dead without a word: not it again."""
        try:
            return connection.wait(number, self.access.timeout)
        except RequestTimeoutError:
            self.connections.drop(connection)
            raise

    def route(self, topic: str, *, fresh: bool = False) -> TopicRoute:
        """Where a topic is. TopicNotExistError if no live broker has it."""
        if fresh or topic not in self._routes:
            answer = self._ask_name_server(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
            self._routes[topic] = TopicRoute.from_json(fastjson.loads(answer.body))
        return self._routes[topic]

    def topics(self) -> set[str]:
        """All that the name servers know."""
        answer = self._ask_name_server(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, {})
        found = fastjson.loads_object(answer.body).get("topicList")
        return {str(t) for t in found} if isinstance(found, list) else set()

    def names(self) -> tuple[set[str], set[str]]:
        """Names of clusters and of brokers; each of them is the name of a topic, too."""
        answer = self._ask_name_server(RequestCode.GET_BROKER_CLUSTER_INFO, {})
        info = fastjson.loads_object(answer.body)
        tables = (info.get("clusterAddrTable"), info.get("brokerAddrTable"))
        clusters, brokers = ({str(k) for k in t} if isinstance(t, dict) else set() for t in tables)
        return clusters, brokers

    def address(self, topic: str, broker: str, *, fresh: bool = False) -> Address:
        """The broker's master; a replica where there is none, unless only masters are asked.
        ConnectError if the route has neither: the broker may be about to come back."""
        try:
            route = self.route(topic, fresh=fresh)
        except TopicNotExistError as error:
            raise ConnectError(f"no live broker has topic {topic} now") from error
        for data in route.brokers:
            if data.broker_name != broker or not data.broker_addrs:
                continue
            if MASTER_ID in data.broker_addrs or not self.access.masters:
                return parse_address(data.broker_addrs[min(data.broker_addrs)], "broker address")
        raise ConnectError(
            f"broker {broker} is not in the route of topic {topic}, or without a master: it is "
            "down, or it does not have the topic any more"
        )

    def is_master(self, topic: str, broker: str, address: Address) -> bool:
        """As the route says that is known; False where it has no such broker."""
        try:
            master = self.route(topic).master_of(broker)
        except TopicNotExistError:
            return False
        return master is not None and parse_address(master, "broker address") == address

    def ask_queues(
        self, queues: Sequence[MessageQueue], question: Callable[[MessageQueue], tuple[int, Ext]]
    ) -> dict[MessageQueue, Command]:
        """Asks the broker of each queue; answers with success. `question` gives code and fields.

        All questions to a broker are under way together. Raises what the last try gave, naming
        the broker.
        """
        answers: dict[MessageQueue, Command] = {}
        by_broker: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            by_broker.setdefault(queue.broker_name, []).append(queue)
        for broker, own in by_broker.items():
            failure: PyrmqError | None = None
            left = own
            for tries in range(self.access.retries + 1):
                if tries:
                    log.warning("broker %s: %s; trying again", escape(broker), escape(failure))
                    pause(tries)
                try:
                    address = self.address(left[0].topic, broker, fresh=tries > 0)
                    connection = self.connections.get(address)
                    self._ask(connection, left, question, answers)
                except PyrmqError as error:
                    if not error.retriable:
                        raise _named(error, broker, self._shown(left[0], broker)) from error
                    failure = error
                left = [q for q in own if q not in answers]
                if not left:
                    break
            else:
                assert failure is not None
                raise _named(failure, broker, self._shown(own[0], broker)) from failure
        return answers

    def _shown(self, queue: MessageQueue, broker: str) -> str:
        try:
            return format_address(self.address(queue.topic, broker))
        except PyrmqError:
            return "address not known"

    def _ask(
        self,
        connection: Connection,
        queues: Iterable[MessageQueue],
        question: Callable[[MessageQueue], tuple[int, Ext]],
        answers: dict[MessageQueue, Command],
    ) -> None:
        todo = list(queues)
        for at in range(0, len(todo), PIPELINE):
            part = todo[at : at + PIPELINE]
            numbers = [connection.submit(*question(queue)) for queue in part]
            for queue, number in zip(part, numbers, strict=True):
                answer = self._wait(connection, number)
                if answer.code != ResponseCode.SUCCESS:
                    raise ResponseError.of(answer.code, answer.remark or "")
                answers[queue] = answer

    def offsets(
        self, code: int, queues: Sequence[MessageQueue], **more: int
    ) -> dict[MessageQueue, int]:
        """What GET_MIN_OFFSET, GET_MAX_OFFSET or SEARCH_OFFSET_BY_TIMESTAMP say of queues."""

        def question(queue: MessageQueue) -> tuple[int, Ext]:
            place: dict[str, str | int | bool] = {
                "topic": queue.topic,
                "queueId": queue.queue_id,
                "bname": queue.broker_name,
            }
            return code, {**place, **more}

        answers = self.ask_queues(queues, question)
        return {queue: max(number(answer, "offset"), 0) for queue, answer in answers.items()}

    def bounds(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, tuple[int, int]]:
        """First offset and end of queues; equal where they are empty."""
        ends = self.offsets(RequestCode.GET_MAX_OFFSET, queues)
        begins = self.offsets(RequestCode.GET_MIN_OFFSET, queues)
        return {q: (min(begins[q], ends[q]), ends[q]) for q in queues}


def number(answer: Command, name: str) -> int:
    """An ext field that has to be an offset."""
    try:
        value = int(answer.ext[name])
    except (KeyError, ValueError) as error:
        raise ProtocolError(f"answer without {name}") from error
    if not -1 <= value <= MAX_OFFSET:
        raise ProtocolError(f"answer with {name}={value}")
    return value


def _named(error: PyrmqError, broker: str, address: str) -> PyrmqError:
    """The error with the broker's name in front; its class and code stay where they can."""
    if isinstance(error, TopicNotExistError):
        return error
    return ClientError(f"broker {broker} ({address}): {error}")
