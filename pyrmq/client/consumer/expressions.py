"""Checks subscriptions with brokers before they are used. [checkClientInBroker]"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial

from pyrmq.client.consumer.members import first_answer
from pyrmq.client.instance import ClientInstance
from pyrmq.errors import PyrmqError, ResponseError
from pyrmq.escape import escape
from pyrmq.model.codes import RequestCode, ResponseCode
from pyrmq.model.subscription import TAG, Subscription
from pyrmq.net import fastjson

log = logging.getLogger(__name__)

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
            route = await client.route(sub.topic)
        except PyrmqError as e:
            log.info("topic %s: its expression is not checked: %s", escape(sub.topic), escape(e))
            continue
        brokers = route.addresses()
        if not brokers:
            continue
        try:
            refusal = await first_answer(brokers, partial(_refusal, client, body))
        except PyrmqError as e:
            log.info("the expression of topic %s is not checked: %s", escape(sub.topic), escape(e))
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
