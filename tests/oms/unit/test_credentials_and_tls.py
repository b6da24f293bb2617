"""An access point gives its clients credentials and TLS, and shows no secret."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import pyrmq.oms
import pyrmq.oms.aio
import pyrmq.oms.sync
from pyrmq import ClientError, Credentials, NotSupportedError, Tls
from tests.support.certificates import Authority
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.signatures import is_signed

SECRET = "s3cret-words"


class Server(ScriptedCluster):
    def answers(self) -> Any:
        return super().answers() | dict.fromkeys((34, 35), lambda c: c.reply(0))


def test_a_message_of_each_portal(tmp_path: Path) -> None:
    ca = Authority(tmp_path)
    server = Server({"T": {"a": 1}}, secure=ca.issue("127.0.0.1").serving())
    how: Any = {"credentials": Credentials("me", SECRET), "tls": Tls(ca=ca.file)}
    with server.serving() as where:
        url = f"oms:rocketmq://{where}/default"
        plain = pyrmq.oms.sync.MessagingAccessPoint(url, **how)
        with plain.create_producer() as sender:
            sender.send(sender.create_bytes_message("T", b"1"))

        async def main() -> None:
            point = pyrmq.oms.aio.MessagingAccessPoint(url, **how)
            async with point.create_producer() as sender:
                await sender.send(sender.create_bytes_message("T", b"2"))

        asyncio.run(main())
    assert server.bodies() == [b"1", b"2"]
    assert all(is_signed(c, "me", SECRET) for c in server.asked)
    assert SECRET not in f"{plain.attributes}{plain!r}"


def test_consumers_get_them() -> None:
    own, tls = Credentials("me", SECRET), Tls(ca="ca")
    point = pyrmq.oms.MessagingAccessPoint(
        "oms:rocketmq://127.0.0.1:1/default", credentials=own, tls=tls
    )
    for create in (point.create_push_consumer, point.create_pull_consumer):
        consumer: Any = create({"CONSUMER_ID": "g"})
        connecting = consumer._client._client.connecting
        assert (connecting["credentials"], connecting["tls"]) == (own, tls)


def test_what_they_cannot_be() -> None:
    url = "oms:rocketmq://127.0.0.1:1/default"
    with pytest.raises(ClientError, match="credentials is of the type str") as caught:
        pyrmq.oms.MessagingAccessPoint(url, credentials=SECRET)  # type: ignore[arg-type]
    assert SECRET not in str(caught.value)
    with pytest.raises(NotSupportedError, match="give credentials= to the access point"):
        pyrmq.oms.MessagingAccessPoint(url, {"ACCOUNT_ID": "me"})
