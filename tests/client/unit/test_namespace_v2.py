"""Every request of a client with `namespace_v2` names it; topics and groups stay as they are."""

from __future__ import annotations

from typing import Any

import pytest
from trio.testing import MockClock

from pyrmq import LitePullConsumer, Message, Producer, PushConsumer, UnusableNameError
from tests.client.members import after
from tests.support.scripted.groups import GroupBroker
from tests.support.scripted.streams import SEND, StreamCluster

FIELDS = {"nsd": "true", "ns": "shop"}


async def test_every_request_has_it(
    groups: StreamCluster, alone: GroupBroker, clock: MockClock
) -> None:
    options: Any = {"namesrv": groups.namesrv, "namespace_v2": "shop"}

    async def listener(message: Any) -> None: ...

    async with (
        Producer("pg", trace=True, **options) as sender,
        PushConsumer("g", {"T": "*"}, listener=listener, orderly=True, **options),
        LitePullConsumer("h", {"T": "*"}, **options) as member,
    ):
        await sender.send(Message("T", b"x"))
        await sender.send_oneway(Message("T", b"x"))
        await after(2)
        await member.commit()
    asked = [*alone.requests(), *groups.asked]
    assert len({c.code for c in asked}) > 10
    for command in asked:
        assert command.ext.items() >= FIELDS.items(), command
    assert {c.ext["b"] for c in alone.requests(SEND)} == {"T", "RMQ_SYS_TRACE_TOPIC"}


async def test_others_have_not(groups: StreamCluster, clock: MockClock) -> None:
    async with Producer("pg", namesrv=groups.namesrv, namespace="shop") as sender:
        await sender.send(Message("T", b"x"))
    assert not [c for c in groups.asked if FIELDS.keys() & c.ext.keys()]


@pytest.mark.parametrize("kind", [Producer, PushConsumer, LitePullConsumer])
def test_a_name_that_is_none(kind: Any) -> None:
    topics = () if kind is Producer else ({"T": "*"},)
    with pytest.raises(UnusableNameError, match="namespace 'a b' is illegal"):
        kind("g", *topics, namesrv="127.0.0.1:1", namespace_v2="a b")
