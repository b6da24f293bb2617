"""pyrmq.sync.Admin and pyrmq.aio.Admin."""

from __future__ import annotations

import asyncio
import gc
import inspect
from contextlib import aclosing
from typing import Any

import pytest

from pyrmq import aio, sync
from pyrmq.admin import Admin
from pyrmq.errors import ClientError, ConfigError, TopicNotExistError
from pyrmq.model.topic import TopicConfig
from pyrmq.portal.shared import SHARED
from pyrmq.server import Running


@pytest.mark.parametrize("portal", [sync, aio], ids=["sync", "aio"])
def test_the_same_parts_methods_and_docs(portal: Any) -> None:
    here, there = portal.Admin("127.0.0.1:1"), Admin("127.0.0.1:1")
    parts = {name for name in vars(there) if name != "link"}
    assert {name for name in vars(here) if not name.startswith("_")} == parts
    for name in parts:
        mine, own = type(getattr(here, name)), type(getattr(there, name))
        assert inspect.getdoc(mine) == inspect.getdoc(own)
        for method, function in inspect.getmembers(own, inspect.isfunction):
            if not method.startswith("_"):
                called = getattr(mine, method)
                assert inspect.getdoc(called) == inspect.getdoc(function)
                assert inspect.signature(called) == inspect.signature(function)


def _topics(admin: sync.Admin, count: int) -> None:
    for n in range(count):
        admin.topics.update(TopicConfig(f"T{n:03d}", 1, 1), cluster="DefaultCluster").check_all()


def test_in_plain_code(server: Running) -> None:
    with sync.Admin(server.namesrv) as admin:
        _topics(admin, 3)
        assert {"T000", "T001", "T002"} <= set(admin.topics.list())
        assert [s.queue.queue_id for s in admin.topics.status("T000").queues] == [0]
        with pytest.raises(TopicNotExistError):
            admin.topics.route("nothing")
        rows = admin.topics.with_groups()
        assert iter(rows) is rows
        names = [row.topic for row in rows]
        assert names == [n for n in admin.topics.list() if not n.startswith("%")]
        for row in admin.topics.with_groups():
            assert row.cluster
            break
        gc.collect()
        with pytest.raises(TopicNotExistError):
            list(admin.topics.flows("nothing"))
    with pytest.raises(ClientError, match="not connected"):
        admin.topics.list()
    with pytest.raises(ConfigError):
        sync.Admin("")
    assert SHARED._portal is None


def test_a_generator_that_outlives_its_admin(server: Running) -> None:
    with sync.Admin(server.namesrv) as admin:
        _topics(admin, 200)
        rows = admin.topics.with_groups()
        next(rows)
    with pytest.raises(ClientError):
        list(rows)
    assert SHARED._portal is None


def test_in_asyncio(server: Running) -> None:
    async def work() -> None:
        async with aio.Admin(server.namesrv) as admin:
            made = await admin.topics.update(TopicConfig("T", 1, 1), cluster="DefaultCluster")
            made.check_all()
            assert "T" in await admin.topics.list()
            names = [row.topic async for row in admin.topics.with_groups()]
            assert "T" in names
            async with aclosing(admin.topics.with_groups()) as rows:
                async for _ in rows:
                    break
            with pytest.raises(TopicNotExistError):
                [row async for row in admin.topics.flows("nothing")]
        with pytest.raises(ClientError, match="not connected"):
            await admin.topics.list()

    asyncio.run(work())
    assert SHARED._portal is None
