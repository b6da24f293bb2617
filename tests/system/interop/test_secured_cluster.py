"""Clusters of both makes whose servers demand credentials, and TLS."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.support.waiting import eventually
from tests.support.wire import Command

from . import certificates, toolchain
from .access.signing import Session
from .access.users import SUPER
from .drivers import Line
from .secured import (
    ALLOWED,
    CLIENT,
    Secured,
    broker,
    copy_users,
    make_users,
    name_server,
    serving,
    succeeded,
)
from .store import peer

COUNT = 12
NEWEST = f"java-{toolchain.NEWEST}"
CLIENTS = (NEWEST, "pyrmq")

pytestmark = pytest.mark.thorough("three servers and their clients, for half a minute each")


@pytest.fixture
def topic() -> str:
    return f"{ALLOWED}{uuid.uuid4().hex[:8]}"


def bodies(lines: Sequence[Line]) -> dict[str, str]:
    """By the id that a producer gave to each message."""
    return {line["properties"]["UNIQ_KEY"]: line["body"] for line in lines}


def exchanged(servers: Secured, topic: str, brokers: set[str]) -> None:
    """Each client sends to all brokers, and each consumes what the other one sent."""
    sent = []
    for client in CLIENTS:
        words = {"topic": topic, "count": COUNT, "label": client, **servers.words(client)}
        lines = servers.driver(client).run("produce", group=f"P-{topic}", **words).sent
        assert {line["brokerName"] for line in lines} == brokers
        sent += lines
    for client in CLIENTS:
        words = {"topic": topic, "count": len(sent), **servers.words(client)}
        received = servers.driver(client).run("consume", group=f"G-{client[:4]}", **words).received
        assert bodies(received) == bodies(sent)


@pytest.mark.parametrize(
    ("names", "whose"), [("apache", "pyrmq"), ("guarded", "apache"), ("open", "apache")]
)
def test_name_server_of_the_other_make(tmp_path: Path, names: str, whose: str, topic: str) -> None:
    """The broker signs what it asks of a name server that demands it."""
    with serving(whose, tmp_path, with_tls=True, names=names) as servers:
        exchanged(servers, topic, {"broker-a"})


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Secured]:
    """Our name server, and a broker of each make; users were made at ours."""
    tls = certificates.make(tmp_path / "tls")
    with ExitStack() as stack:
        names = stack.enter_context(name_server("guarded", tmp_path / "names", tls))
        start = [("pyrmq", "broker-a"), ("apache", "broker-b")]
        ours, apache = (
            stack.enter_context(broker(whose, tmp_path / name, names.address, tls, brokerName=name))
            for whose, name in start
        )

        def state() -> str:
            return "\n".join(server.state() for server in (names, ours, apache))

        servers = Secured(names.address, ours.address, tls, tmp_path, state)
        make_users(servers)
        copy_users(servers, names.address, apache.address)
        yield servers


def test_both_makes_in_one_cluster(cluster: Secured, topic: str) -> None:
    """The topic is made on both brokers by mqadmin, which finds them at our name server."""
    at = ("-c", "DefaultCluster")
    with cluster.mqadmin(SUPER) as tool:
        succeeded(tool, cluster, "updateTopic", *at, "-t", topic, "-r", "3", "-w", "3")
        assert CLIENT[0] in succeeded(tool, cluster, "listUser", *at)
    exchanged(cluster, topic, {"broker-a", "broker-b"})


UNSIGNED = "103,104,217,322,901,904"
"""What a broker asks name servers as it comes, lives and goes."""


def test_a_broker_that_does_not_sign(tmp_path: Path) -> None:
    """One without innerClientAuthenticationCredentials registers where both lists say that it may,
    and nowhere else."""
    keys = {"authenticationWhitelist": UNSIGNED, "authorizationWhitelist": UNSIGNED}
    with (
        name_server("guarded", tmp_path / "strict", None) as strict,
        name_server("guarded", tmp_path / "lists", None, **keys) as lists,
        peer.RealBroker(
            tmp_path / "store", f"{strict.address};{lists.address}", home=tmp_path / "b"
        ),
    ):
        eventually(lambda: b'"broker-a"' in brokers_at(lists.address), "it is registered")
        assert b'"broker-a"' not in brokers_at(strict.address)
        assert "103 REGISTER_BROKER refused" in strict.state()


def brokers_at(namesrv: str) -> bytes:
    host, _, port = namesrv.rpartition(":")
    with closing(Session((host, int(port)))) as session:
        answer = session.ask(Command(106), SUPER)
    assert answer is not None
    assert answer.code == 0
    return answer.body
