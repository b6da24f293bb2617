"""Asks the brokers of a topic about a group: who its members are (GET_CONSUMER_LIST_BY_GROUP), and
whether they take its subscriptions (CHECK_CLIENT_CONFIG).
[MQClientAPIImpl.getConsumerIdListByGroup, MQClientInstance.checkClientInBroker]"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

import trio

from pyrmq.client.instance import ClientInstance
from pyrmq.errors import ClientError, ProtocolError, PyrmqError, ResponseError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.codes import RequestCode, ResponseCode
from pyrmq.model.route import TopicRoute
from pyrmq.model.subscription import TAG, Subscription
from pyrmq.net import fastjson
from pyrmq.net.client.channel import Channel

log = logging.getLogger(__name__)

T = TypeVar("T")


NEXT_AFTER = 0.3
"""Seconds that a broker may take before the next one is asked as well."""


class Members:
    """Asks the brokers of a topic, masters before slaves, beginning with the same one in every
    member, so that all share by the same list; one that does not answer holds up nobody for
    long."""

    def __init__(self, client: ClientInstance, group: str) -> None:
        self._client = client
        self._group = group

    async def ids(self, topic: str, route: TopicRoute) -> list[str]:
        """Client ids, sorted. The own one is missing only if the broker does not take it."""
        addresses = route.addresses()
        if not addresses:
            raise ClientError(f"no broker of {topic} has an address")
        return await first_answer(addresses, self._ask)

    async def _ask(self, address: str) -> list[str]:
        channel = await self._client.known_channel(address)
        try:
            ids = await self._list(channel)
        except ResponseError:
            ids = []  # what brokers answer for a group without members
        if self._client.client_id not in ids:
            # The broker has forgotten this member: the queues stay until it has said so again.
            log.info(
                "broker %s does not list this member: registering again",
                escape(address),
                extra=about(broker=address),
            )
            await self._client.register(channel)
            try:
                ids = await self._list(channel)
            except ResponseError as e:
                raise ClientError(
                    f"broker {address} has no members of the group: {e} (where "
                    "autoCreateSubscriptionGroup is off the group has to be created)"
                ) from e
        return ids

    async def _list(self, channel: Channel) -> list[str]:
        fields = {"consumerGroup": self._group}
        answer = await channel.request(RequestCode.GET_CONSUMER_LIST_BY_GROUP, fields)
        ids = fastjson.loads_object(answer.body).get("consumerIdList")
        if not isinstance(ids, list) or not ids:
            raise ProtocolError("consumer list without ids")
        return sorted(str(i) for i in ids)


async def first_answer(addresses: Sequence[str], ask: Callable[[str], Awaitable[T]]) -> T:
    """The first answer that comes. The next address is asked when one has failed, or has not
    answered for a moment. Raises the last failure if there is no answer."""
    answers: list[T] = []
    failures: list[PyrmqError] = []

    async def attempt(address: str, over: trio.Event) -> None:
        try:
            answers.append(await ask(address))
            nursery.cancel_scope.cancel()
        except PyrmqError as e:
            failures.append(e)
            over.set()

    async with trio.open_nursery() as nursery:
        for address in addresses:
            over = trio.Event()
            nursery.start_soon(attempt, address, over)
            with trio.move_on_after(NEXT_AFTER):
                await over.wait()
    if answers:
        return answers[0]
    raise failures[-1]


REFUSALS = (ResponseCode.SUBSCRIPTION_PARSE_FAILED, ResponseCode.SYSTEM_ERROR)


async def check_expressions(
    client: ClientInstance, group: str, subscriptions: Iterable[Subscription]
) -> None:
    """Sends expressions other than tags to the brokers of their topics, and raises the error of the
    first one that refuses. Later refusals are logged when queues are read."""
    for sub in subscriptions:
        if sub.expression_type == TAG:
            continue
        body = fastjson.dumps(
            {"clientId": client.client_id, "group": group, "subscriptionData": sub.to_json()}
        )
        try:
            route = await client.routes.route(sub.topic)
        except PyrmqError as e:
            log.info(
                "topic %s: its expression is not checked: %s",
                escape(sub.topic),
                escape(e),
                extra=about(topic=sub.topic),
            )
            continue
        brokers = route.addresses()
        if not brokers:
            continue
        try:
            refusal = await first_answer(brokers, partial(_refusal, client, body))
        except PyrmqError as e:
            log.info(
                "the expression of topic %s is not checked: %s",
                escape(sub.topic),
                escape(e),
                extra=about(topic=sub.topic),
            )
        else:
            if refusal is not None:
                raise refusal


async def _refusal(client: ClientInstance, body: bytes, address: str) -> ResponseError | None:
    channel = await client.channel(address)
    try:
        await channel.request(RequestCode.CHECK_CLIENT_CONFIG, body=body)
    except ResponseError as e:
        if e.code in REFUSALS:
            return e
        raise
    return None
