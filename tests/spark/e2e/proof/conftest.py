"""The stores, each written once a session; what Apache's broker has to do with is left out, and
said, where there is no Java."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.interop import toolchain
from tests.system.interop.store import peer
from tests.system.interop.store.tool import Tool

from .brokers import by_apache, by_us
from .material import Material


@pytest.fixture(scope="session")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stores")


@pytest.fixture(scope="session")
def java_missing() -> str:
    """Why Apache's programs cannot run here; empty if they can."""
    try:
        peer.classpath()
    except toolchain.Missing as missing:
        if toolchain.required():
            raise
        return str(missing)
    return ""


@pytest.fixture(scope="session")
def tool(stores: Path, java_missing: str) -> Iterator[Tool | None]:
    """The official Java client, None where there is no Java."""
    if java_missing:
        yield None
        return
    with Tool(stores / "tool") as running:
        yield running


@pytest.fixture(scope="session")
def ours(stores: Path, tool: Tool | None) -> Material:
    """Written by our broker."""
    return by_us(stores, tool)


@pytest.fixture(scope="session")
def apache(stores: Path, tool: Tool | None, java_missing: str) -> Material:
    """Written by Apache RocketMQ's broker."""
    if tool is None:
        pytest.skip(f"{java_missing} (PYRMQ_REQUIRE_INTEROP=1 makes this a failure)")
    with peer.NameServer(stores / "namesrv") as server:
        return by_apache(stores, server.address, tool)


@pytest.fixture(params=["ours", "apache"])
def material(request: pytest.FixtureRequest) -> Material:
    """Either of them."""
    found: Material = request.getfixturevalue(request.param)
    return found
