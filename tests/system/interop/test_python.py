"""Messages from our client to those of Java and Go, and the other way round, through our server."""

from __future__ import annotations

import pytest

from . import checks, toolchain
from .conftest import built
from .drivers import Driver
from .server import Server

COUNT = 12
KINDS = [
    "ZLIB",
    *(
        pytest.param(kind, marks=pytest.mark.thorough("one kind of compression stands for all"))
        for kind in ("LZ4", "ZSTD")
    ),
]


@pytest.fixture
def python(server: Server) -> Driver:
    return Driver("pyrmq", tuple(built("pyrmq")), server.namesrv, server.state)


@pytest.fixture
def newest(server: Server) -> Driver:
    name = f"java-{toolchain.NEWEST}"
    return Driver(name, tuple(built(name)), server.namesrv, server.state)


@pytest.mark.parametrize("compress", KINDS)
def test_ours_are_received(
    python: Driver, newest: Driver, go: Driver, topic: str, group: str, compress: str
) -> None:
    sent = python.run(
        "produce", topic=topic, group="P-" + group, count=COUNT, compress=compress
    ).sent
    checks.sent_well(sent, COUNT)
    readers = [newest, python]
    if compress == "ZLIB":
        readers.append(go)  # it knows no other
    for reader in readers:
        words = {"topic": topic, "group": f"{reader.name.replace('.', '-')}-{group}"}
        checks.arrived(sent, reader.run("consume", count=COUNT, **words).received)


@pytest.mark.parametrize("compress", KINDS)
def test_those_of_java_are_received(
    python: Driver, newest: Driver, topic: str, group: str, compress: str
) -> None:
    newest = newest.with_jvm_options(f"-Drocketmq.message.compressType={compress}")
    sent = newest.run("produce", topic=topic, group="P-" + group, count=COUNT).sent
    checks.arrived(sent, python.run("consume", topic=topic, group=group, count=COUNT).received)


def test_those_of_go_are_received(python: Driver, go: Driver, topic: str, group: str) -> None:
    sent = go.run("produce", topic=topic, group="P-" + group, count=COUNT).sent
    checks.arrived(sent, python.run("consume", topic=topic, group=group, count=COUNT).received)


def test_a_batch_of_java_is_received(
    python: Driver, newest: Driver, topic: str, group: str
) -> None:
    sent = newest.run("produce-batch", topic=topic, group="P-" + group, count=COUNT, size=5).sent
    checks.arrived(sent, python.run("consume", topic=topic, group=group, count=COUNT).received)
