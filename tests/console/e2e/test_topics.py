"""The pages of topics: what they show of a broker, and what their forms do to it."""

from __future__ import annotations

import html
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import quote

import pytest

from pyrmq.admin import Admin
from pyrmq.admin.topic_file import TopicChange
from pyrmq.client import ConsumeFrom, Producer, PushConsumer
from pyrmq.console.app import console_app
from pyrmq.console.settings import Settings
from pyrmq.model.message import Message
from pyrmq.model.topic import TopicConfig
from pyrmq.server import Running
from tests.console.asgi import Client, client
from tests.console.words import words
from tests.support.consumed import take

CLUSTER = "DefaultCluster"


def settings(server: Running, *, read_only: bool = False) -> Settings:
    return Settings(server.namesrv, read_only=read_only)


@pytest.fixture
async def console(embedded: Running) -> AsyncIterator[Client]:
    async with client(console_app(settings(embedded))) as browser:
        yield browser


@asynccontextmanager
async def tools(server: Running) -> AsyncIterator[Admin]:
    async with Admin(server.namesrv) as admin:
        yield admin


async def send(server: Running, topic: str, many: int) -> None:
    async with Producer("pg", namesrv=server.namesrv) as producer:
        for n in range(many):
            await producer.send(Message(topic, b"%d" % n))


async def make(server: Running, *names: str) -> None:
    async with tools(server) as admin:
        rows = [TopicChange(TopicConfig(name, 2, 2)) for name in names]
        (await admin.topics.update_many(rows, cluster=CLUSTER)).check_all()


async def test_a_list_of_many_topics(embedded: Running, console: Client) -> None:
    await make(embedded, *(f"shop-{n:03}" for n in range(150)))
    first = await console.get("/topics?sort=name")
    assert first.status == 200
    assert first.text.count('href="/topics/shop-') == 100
    second = words((await console.get("/topics?sort=name&page=2")).text)
    assert "shop-149" in second
    assert "shop-050" not in second
    found = await console.get("/topics?q=SHOP-14")
    assert found.text.count('href="/topics/shop-') == 10
    last = await console.get("/topics?sort=-name")
    assert last.text.index("shop-149") < last.text.index("shop-148")
    assert "%RETRY%" not in words(first.text), "they are another kind"
    assert "SCHEDULE_TOPIC_XXXX" in words((await console.get("/topics?kind=system")).text)
    strange = await console.get("/topics?kind=%3Cb%3E&sort=nonsense&page=-1")
    assert strange.status == 200
    assert "<b>" not in strange.text


async def test_one_topic_and_who_consumes_it(embedded: Running, console: Client) -> None:
    await send(embedded, "orders", 6)
    reader = PushConsumer(
        "billing",
        {"orders": "*"},
        namesrv=embedded.namesrv,
        consume_from=ConsumeFrom.FIRST_OFFSET,
    )
    async with reader, Producer("shop-senders", namesrv=embedded.namesrv) as sender:
        await take(reader, 6)
        await sender.send(Message("orders", b"7"))
        shown = words((await console.get("/topics/orders")).text)
        assert "Stored messages 7" in shown
        assert "billing" in shown
        assert "broker-a" in shown
        senders = words((await console.get("/topics/orders/producers")).text)
        assert "shop-senders" in senders
        assert "PYTHON" in senders


@pytest.mark.parametrize("name", ["100%", "a%20b", "%2e%2e", "a|b", "%RETRY%team", "create", "~"])
async def test_names_that_are_hard_to_write_into_a_path(
    embedded: Running, console: Client, name: str
) -> None:
    if name == "~":
        assert (await console.get("/topics/~")).status == 404
        return
    await make(embedded, name)
    path = f"/topics/{quote(name, safe='')}"
    kind = "retry" if name.startswith("%RETRY%") else "user"
    assert f'href="{html.escape(path)}"' in (await console.get(f"/topics?kind={kind}")).text
    shown = await console.get(path)
    assert shown.status == 200
    assert f"<h1>{html.escape(name)}</h1>" in shown.text
    for part in ("change", "delete", "producers"):
        assert (await console.get(f"{path}/{part}")).status == 200


@pytest.mark.parametrize(
    "path", ["nope", "a%2Fb", "%3Cscript%3E", "..%2f..", "x" * 600, "nope/delete"]
)
async def test_topics_that_are_not_there(console: Client, path: str) -> None:
    shown = await console.get(f"/topics/{path}")
    assert shown.status == 404
    assert "<script>" not in shown.text


async def test_a_topic_is_created_changed_and_deleted(embedded: Running, console: Client) -> None:
    await console.get("/topics/~/create")
    form = {
        "topic": "new|one",
        "cluster": CLUSTER,
        "read_queues": "3",
        "write_queues": "2",
        "perm": "6",
        "message_type": "FIFO",
    }
    made = await console.post("/topics/~/create", form)
    assert made.status == 303, made.text
    assert made.headers["location"] == "/topics/new%7Cone"
    assert "is created" in words((await console.get(made.headers["location"])).text)
    async with tools(embedded) as admin:
        route = await admin.topics.route("new|one")
        assert [(q.read_queue_nums, q.write_queue_nums) for q in route.queues] == [(3, 2)]
        again = await console.post("/topics/~/create", form)
        assert again.status == 422
        assert "already" in words(again.text)

        changed = await console.post(
            "/topics/new%7Cone/change",
            {"topic": "new|one", "cluster": CLUSTER, "write_queues": "3", "perm": "4"},
        )
        assert changed.status == 303, changed.text
        shown = words((await console.get("/topics/new%7Cone")).text)
        assert "R- FIFO" in shown
        route = await admin.topics.route("new|one")
        assert [(q.read_queue_nums, q.write_queue_nums) for q in route.queues] == [(3, 3)]

        wrong = {"topic": "new|one", "cluster": CLUSTER}
        for typed in ({}, {"_typed": "new"}):
            refused = await console.post("/topics/new%7Cone/delete", {**wrong, **typed})
            assert refused.status == 403
        assert "new|one" in await admin.topics.list()
        gone = await console.post("/topics/new%7Cone/delete", {**wrong, "_typed": "new|one"})
        assert gone.status == 303, gone.text
        assert "new|one" not in await admin.topics.list()
        assert "new|one" not in (await console.get("/topics")).text.replace("Topic new|one", "")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("topic", "a b"), ("topic", ""), ("topic", "x" * 128), ("cluster", "elsewhere"),
        ("read_queues", "-1"), ("read_queues", "many"), ("write_queues", "9" * 30),
        ("message_type", "<b>"), ("attributes", "no sign"), ("perm", "9"),
    ],
)  # fmt: skip
async def test_wrong_fields(embedded: Running, console: Client, field: str, value: str) -> None:
    await console.get("/topics/~/create")
    form = {"topic": "fresh", "cluster": CLUSTER, "read_queues": "1", "write_queues": "1"}
    refused = await console.post("/topics/~/create", {**form, field: value})
    assert refused.status == 422
    assert "<b>" not in refused.text
    async with tools(embedded) as admin:
        assert "fresh" not in await admin.topics.list()


async def test_fewer_queues_do_not_hide_messages(embedded: Running, console: Client) -> None:
    await make(embedded, "full")
    await send(embedded, "full", 8)
    await console.get("/topics/full/change")
    form = {"topic": "full", "cluster": CLUSTER, "read_queues": "1"}
    refused = await console.post("/topics/full/change", form)
    assert refused.status == 422
    assert "would hide messages" in words(refused.text)
    empty = await console.post("/topics/full/change", {"topic": "full", "cluster": CLUSTER})
    assert "nothing is to be changed" in words(empty.text)
    assert (await console.post("/topics/full/change", {**form, "force": "1"})).status == 303


async def test_nothing_changes_without_the_token_or_in_read_only_mode(embedded: Running) -> None:
    await make(embedded, "kept")
    form = {"topic": "kept", "cluster": CLUSTER, "_typed": "kept"}
    async with client(console_app(settings(embedded))) as browser:
        assert (await browser.post("/topics/kept/delete", form)).status == 403
    async with client(console_app(settings(embedded, read_only=True))) as browser:
        page = await browser.get("/topics/kept")
        assert "/topics/kept/delete" not in page.text
        assert "may only read" in words((await browser.get("/topics/kept/delete")).text)
        assert (await browser.post("/topics/kept/delete", form)).status == 403
    async with tools(embedded) as admin:
        assert "kept" in await admin.topics.list()


async def test_an_empty_cluster_and_no_cluster(embedded: Running, console: Client) -> None:
    assert "There are no topics" in words((await console.get("/topics?kind=dead%20letter")).text)
    async with client(console_app(Settings("127.0.0.1:1", timeout=0.5))) as browser:
        away = await browser.get("/topics")
        assert away.status == 502
        assert "127.0.0.1:1" in away.text
