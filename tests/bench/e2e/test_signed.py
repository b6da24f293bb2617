"""All requests of a load are signed, as the broker's engine verifies them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import pyrmq.testing
from pyrmq.bench.options import Options
from pyrmq.bench.run import run
from pyrmq.broker import assembly
from pyrmq.engine import Command, Keyring, Listener
from pyrmq.net.client.credentials import Credentials
from pyrmq.net.server.connection import Connection
from pyrmq.net.server.dispatch import Dispatcher
from pyrmq.server import Running

ME = Credentials("me", "my secret", "a token")
Seen = list[tuple[int, str | None]]


@pytest.fixture(scope="module")
def broker() -> Iterator[tuple[Running, Seen]]:
    """A broker that grants nothing, so that it sees all requests, and what it saw."""
    ring, seen = Keyring(), []
    ring.replace({ME.access_key: ME.secret_key})
    process = Dispatcher.process

    def noting(self: Dispatcher, connection: Connection, command: Command) -> None:
        if self._name.startswith("broker") and not command.is_response:
            seen.append((command.code, command.subject))
        process(self, connection, command)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assembly, "Listener", lambda *a, **kw: Listener(*a, **kw | {"keyring": ring}))
        patch.setattr(Dispatcher, "process", noting)
        with pyrmq.testing.broker() as running:
            yield running, seen


@pytest.mark.parametrize("serialize", ["json", "rocketmq"])
@pytest.mark.parametrize(
    ("load", "codes"),
    [
        ("send", {310, 34}),
        ("batch", {320}),
        ("oneway", {310, 34}),
        ("transaction", {310, 37}),
        ("latency", {310, 11, 30}),
    ],
)
def test_every_request_has_its_signer(
    broker: tuple[Running, Seen], load: str, codes: set[int], serialize: str
) -> None:
    running, seen = broker
    seen.clear()
    found = run(
        Options(
            load,
            namesrv=running.namesrv,
            topic=f"Bench{load}",
            count=160,
            keys=7,
            connections=2,
            in_flight=20,
            rate=None,
            tags=[("A", 1.0), ("B", 2.0)],
            properties=[("quoted", '"é\\')],
            serialize=serialize,
            credentials=ME,
        )
    )
    assert (found.messages, found.errors) == (160, [])
    assert codes <= {code for code, _ in seen}
    assert {subject for _, subject in seen} == {"me"}


def test_a_secret_that_is_wrong(broker: tuple[Running, Seen]) -> None:
    running, seen = broker
    seen.clear()
    options = Options("send", namesrv=running.namesrv, count=20, credentials=Credentials("me", "x"))
    run(options)
    assert {subject for _, subject in seen} == {None}
