"""Asking a list of name servers, and the routes that were learnt from them. No I/O: procedures."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyrmq.engine import Command
from pyrmq.errors import (
    ConnectError,
    NoPermissionError,
    PyrmqError,
    ResponseError,
    TopicNotExistError,
)
from pyrmq.model.codes import RequestCode, ResponseCode
from pyrmq.model.names import AUTO_CREATE_TOPIC
from pyrmq.model.route import ClusterInfo, TopicRoute, auto_create_route
from pyrmq.net import fastjson
from pyrmq.net.address import Address, format_address
from pyrmq.net.backoff import NO_RETRY, RetryPolicy
from pyrmq.net.client.procedure import Invoke, Pause, Procedure
from pyrmq.net.client.protocol import Ext

OTHERS = 1.0
"""Seconds that another name server may take, once one has answered that it knows nothing."""


class NameServers:
    """The name servers of a cluster: one is kept while it answers, then the next is asked.

    A topic counts as unknown, and a cluster as empty, only if no name server that answers knows it:
    one that has just started, or that brokers cannot reach, knows nothing. `policy` says how often
    the whole list is asked. `label` goes into the error text.
    """

    def __init__(
        self,
        addresses: Sequence[Address],
        *,
        timeout: float,
        policy: RetryPolicy = NO_RETRY,
        label: str = "",
    ) -> None:
        self.addresses = tuple(addresses)
        self._timeout = timeout
        self._policy = policy
        self._label = label
        self._current = 0

    def request(
        self, code: int, ext: Ext, is_empty: Callable[[Command], bool] = lambda _: False
    ) -> Procedure[Command]:
        """The first answer with success that is not empty; an empty one if there is no other.
        TopicNotExistError, ConnectError, and NoPermissionError if all refuse: asking again would
        only count as another failed login."""
        failures: dict[Address, PyrmqError] = {}
        failure: PyrmqError | None = None
        failed, many = 0, len(self.addresses)
        while True:
            absent: TopicNotExistError | None = None
            empty: Command | None = None
            timeout, first = self._timeout, self._current
            for at in [(first + i) % many for i in range(many)]:
                answer = yield Invoke(self.addresses[at], code, ext, timeout)
                if isinstance(answer, Command):
                    if answer.code == ResponseCode.SUCCESS:
                        if is_empty(answer):
                            empty = empty or answer
                            timeout = min(self._timeout, OTHERS)
                            continue
                        self._current = at
                        return answer
                    answer = ResponseError.of(answer.code, answer.remark or "")
                assert answer is not None, "only a Pause comes to nothing"
                failures[self.addresses[at]] = failure = answer
                if isinstance(answer, TopicNotExistError):
                    absent = absent or answer
                    timeout = min(self._timeout, OTHERS)
                elif absent is None and empty is None:
                    self._current = (at + 1) % many
            if empty is not None:
                return empty
            if absent is not None:
                raise self._unknown(absent, failures)
            if all(isinstance(e, NoPermissionError) for e in failures.values()):
                raise self._refused(failures) from failure
            failed += 1
            pause = self._policy.pause(failed)
            if pause is None:
                break
            yield Pause(pause)
        raise ConnectError(f"no name server{self._label} answered: {_text(failures)}") from failure

    def _refused(self, failures: dict[Address, PyrmqError]) -> ResponseError:
        """The first refusal, with its server: name servers have users of their own."""
        address, error = next(iter(failures.items()))
        where = format_address(address)
        refusal = ResponseError.of(
            ResponseCode.NO_PERMISSION, f"name server {where}: {error.args[0]}"
        )
        refusal.server = where
        return refusal

    def _unknown(
        self, absent: TopicNotExistError, failures: dict[Address, PyrmqError]
    ) -> TopicNotExistError:
        """What the first one said, and, if there are several, which ones say so."""
        if len(self.addresses) == 1:
            return absent
        say = [a for a, e in failures.items() if isinstance(e, TopicNotExistError)]
        text = f"{absent.args[0]} [name servers that say so: {', '.join(map(format_address, say))}"
        others = {a: e for a, e in failures.items() if a not in say}
        text += f"; others: {_text(others)}]" if others else "]"
        error = TopicNotExistError(text, absent.code)
        error.answered = True
        return error

    def route(self, topic: str) -> Procedure[TopicRoute]:
        """GET_ROUTEINFO_BY_TOPIC. TopicNotExistError if no live broker has the topic."""
        answer = yield from self.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
        return TopicRoute.from_json(fastjson.loads(answer.body))

    def cluster_info(self) -> Procedure[ClusterInfo]:
        """GET_BROKER_CLUSTER_INFO."""
        answer = yield from self.request(
            RequestCode.GET_BROKER_CLUSTER_INFO, {}, lambda answer: not _cluster(answer).brokers
        )
        return _cluster(answer)

    def topics(self) -> Procedure[set[str]]:
        """GET_ALL_TOPIC_LIST_FROM_NAMESERVER."""
        answer = yield from self.request(
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, {}, lambda answer: not _topics(answer)
        )
        return _topics(answer)


def _cluster(answer: Command) -> ClusterInfo:
    return ClusterInfo.from_json(fastjson.loads_object(answer.body))


def _topics(answer: Command) -> set[str]:
    found = fastjson.loads_object(answer.body).get("topicList")
    return {str(t) for t in found} if isinstance(found, list) else set()


def _text(failures: dict[Address, PyrmqError]) -> str:
    """What each of them came to, by its address."""
    texts = []
    for address, failure in failures.items():
        where, what = format_address(address), str(failure)
        texts.append(what if where in what else f"{where}: {what}")
    return "; ".join(texts)


class RouteTable:
    """Routes by topic. What the name servers do not know any more stays until it is asked for
    afresh: its broker may be about to come back."""

    def __init__(self, servers: NameServers) -> None:
        self.servers = servers
        self.known: dict[str, TopicRoute] = {}

    def route(self, topic: str, *, fresh: bool = False) -> Procedure[TopicRoute]:
        """Where a topic is; `fresh`: as the name servers say now. TopicNotExistError."""
        known = self.known.get(topic)
        if known is not None and not fresh:
            return known
        return (yield from self.renew(topic, known))

    def renew(self, topic: str, stale: TopicRoute | None) -> Procedure[TopicRoute]:
        """A route newer than `stale`: asked for, unless somebody else has done so since."""
        known = self.known.get(topic)
        if known is not None and known is not stale:
            return known
        route = self.known[topic] = yield from self.servers.route(topic)
        return route

    def publish_route(self, topic: str, *, fresh: bool = False) -> Procedure[TopicRoute]:
        """As `route`; a topic that is new gets the brokers that create topics on demand."""
        try:
            return (yield from self.route(topic, fresh=fresh))
        except TopicNotExistError:
            return (yield from self.auto_create_route(topic))

    def auto_create_route(self, topic: str) -> Procedure[TopicRoute]:
        """Where a topic will be once its first message makes it. TopicNotExistError if no broker
        creates topics on demand. [TBW102; MQClientInstance.updateTopicRouteInfoFromNameServer]"""
        try:
            template = yield from self.servers.route(AUTO_CREATE_TOPIC)
        except TopicNotExistError:
            raise TopicNotExistError(
                f"topic {topic} does not exist and no broker creates topics on demand"
            ) from None
        return auto_create_route(template)
