"""Who is in a group: GET_CONSUMER_LIST_BY_GROUP."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import trio

from pyrmq.client.instance import ClientInstance
from pyrmq.errors import ClientError, ProtocolError, PyrmqError, ResponseError
from pyrmq.escape import escape
from pyrmq.model.codes import RequestCode
from pyrmq.model.route import TopicRoute
from pyrmq.net import fastjson
from pyrmq.net.client.channel import Channel

log = logging.getLogger(__name__)

NEXT_AFTER = 0.3
"""Seconds that a broker may take before the next one is asked as well."""
T = TypeVar("T")


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
            log.info("broker %s does not list this member: registering again", escape(address))
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
