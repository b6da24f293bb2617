"""What the driver and the tasks ask a cluster: where topics are, how far their queues reach.

Every question is asked a bounded number of times; what is raised then names the server.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pyrmq.engine import Command
from pyrmq.errors import (
    ClientError,
    ConnectError,
    PyrmqError,
    TopicNotExistError,
)
from pyrmq.escape import escape
from pyrmq.model.codes import RequestCode
from pyrmq.model.message import MessageQueue
from pyrmq.model.retry import may_request_again
from pyrmq.model.route import TopicRoute
from pyrmq.net.address import Address, format_address, parse_address
from pyrmq.net.backoff import FIRST_PAUSE, LONGEST_PAUSE, RetryPolicy
from pyrmq.net.client.blocking_channel import BlockingChannel, BlockingChannels
from pyrmq.net.client.credentials import Credentials
from pyrmq.net.client.name_servers import NameServers, RouteTable
from pyrmq.net.client.protocol import Ext
from pyrmq.net.client.tls import Tls
from pyrmq.net.command import check_success, number

log = logging.getLogger(__name__)

PIPELINE = 256
"""Questions under way on one connection."""


@dataclass(frozen=True)
class Access:
    """How to reach a cluster; travels to the tasks."""

    name_servers: tuple[Address, ...]
    timeout: float = 10.0
    """Seconds that an answer may take."""
    retries: int = 3
    """Further tries after one that failed."""
    interval: float = FIRST_PAUSE
    """Seconds before the first of them; they grow up to LONGEST_PAUSE, or this."""
    masters: bool = False
    """Whether only masters are asked: a replica may be behind."""
    credentials: Credentials | None = None
    tls: Tls | None = None

    @property
    def policy(self) -> RetryPolicy:
        return RetryPolicy(self.retries, self.interval, max(self.interval, LONGEST_PAUSE))

    def text(self) -> str:
        return ";".join(format_address(a) for a in self.name_servers)


class Cluster:
    """A context manager; connections are opened when they are needed."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self.policy = access.policy
        self.channels = BlockingChannels(access.credentials, access.tls)
        self._name_servers = NameServers(
            access.name_servers,
            timeout=access.timeout,
            policy=access.policy,
            label=f" of nameServer={access.text()}",
        )
        self._routes = RouteTable(self._name_servers)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *error: object) -> None:
        self.channels.close()

    def route(self, topic: str, *, fresh: bool = False) -> TopicRoute:
        """Where a topic is. TopicNotExistError if no live broker has it."""
        return self.channels.perform(self._routes.route(topic, fresh=fresh))

    def publish_route(self, topic: str, *, fresh: bool = False) -> TopicRoute:
        """Where a topic is, or will be once its first message makes it. TopicNotExistError."""
        return self.channels.perform(self._routes.publish_route(topic, fresh=fresh))

    def topics(self) -> set[str]:
        """All that the name servers know."""
        return self.channels.perform(self._name_servers.topics())

    def names(self) -> tuple[set[str], set[str]]:
        """Names of clusters and of brokers; each of them is the name of a topic, too."""
        info = self.channels.perform(self._name_servers.cluster_info())
        return info.clusters, set(info.brokers)

    def address(self, topic: str, broker: str, *, fresh: bool = False) -> Address:
        """The broker's master; a replica where there is none, unless only masters are asked.
        ConnectError if the route has neither: the broker may be about to come back."""
        try:
            route = self.route(topic, fresh=fresh)
        except TopicNotExistError as error:
            raise ConnectError(f"no live broker has topic {topic} now") from error
        address = route.address_of(broker, master_only=self.access.masters)
        if address is None:
            raise ConnectError(
                f"broker {broker} is not in the route of topic {topic}, or without a master: it "
                "is down, or it does not have the topic any more"
            )
        return parse_address(address, "broker address")

    def is_master(self, topic: str, broker: str, address: Address) -> bool:
        """As the route says that is known; False where it has no such broker."""
        try:
            master = self.route(topic).master_of(broker)
        except TopicNotExistError:
            return False
        return master is not None and parse_address(master, "broker address") == address

    def ask_queues(
        self,
        queues: Sequence[MessageQueue],
        question: Callable[[MessageQueue], tuple[int, Ext]],
        check: Callable[[Command], Command] = check_success,
    ) -> dict[MessageQueue, Command]:
        """Asks the broker of each queue. `question` gives code and fields, `check` takes what comes
        back: by default answers with success.

        All questions to a broker are under way together. Raises what the last try gave, naming
        the broker.
        """
        answers: dict[MessageQueue, Command] = {}
        by_broker: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            by_broker.setdefault(queue.broker_name, []).append(queue)
        for broker, own in by_broker.items():
            left, failed = own, 0
            while left:
                try:
                    address = self.address(left[0].topic, broker, fresh=failed > 0)
                    self._ask(self.channels.get(address), left, question, answers, check)
                except PyrmqError as error:
                    failed += 1
                    seconds = self.policy.pause(failed) if may_request_again(error) else None
                    if seconds is None:
                        raise _named(error, broker, self._shown(own[0], broker)) from error
                    log.warning("broker %s: %s; trying again", escape(broker), escape(error))
                    self.channels.pause(seconds)
                left = [q for q in own if q not in answers]
        return answers

    def _shown(self, queue: MessageQueue, broker: str) -> str:
        try:
            return format_address(self.address(queue.topic, broker))
        except PyrmqError:
            return "address not known"

    def _ask(
        self,
        channel: BlockingChannel,
        queues: Iterable[MessageQueue],
        question: Callable[[MessageQueue], tuple[int, Ext]],
        answers: dict[MessageQueue, Command],
        check: Callable[[Command], Command],
    ) -> None:
        todo = list(queues)
        for at in range(0, len(todo), PIPELINE):
            part = todo[at : at + PIPELINE]
            requests = [channel.submit(*question(queue)) for queue in part]
            for queue, request in zip(part, requests, strict=True):
                answers[queue] = check(channel.wait(request, self.access.timeout))

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


def _named(error: PyrmqError, broker: str, address: str) -> PyrmqError:
    """The error with the broker's name in front; its class and code stay where they can."""
    if isinstance(error, TopicNotExistError):
        return error
    return ClientError(f"broker {broker} ({address}): {error}")
