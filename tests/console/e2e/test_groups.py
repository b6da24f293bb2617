"""The pages of groups: what they show of a broker and of members, and what their forms do."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import ModuleType
from urllib.parse import quote

import pytest

from pyrmq.admin import Admin
from pyrmq.broker.stats import consume_stats
from pyrmq.client import ConsumeFrom, MessageModel, Producer, PushConsumer
from pyrmq.console.app import console_app
from pyrmq.console.settings import Settings
from pyrmq.console.views import cache, groups
from pyrmq.model.message import Message, MessageQueue
from pyrmq.server import Running
from tests.console.asgi import Client, client
from tests.console.words import until, words
from tests.support.consumed import take
from tests.support.waiting import until as eventually

CLUSTER = "DefaultCluster"
QUEUE = MessageQueue("orders", "broker-a", 0)


@pytest.fixture
async def console(embedded: Running) -> AsyncIterator[Client]:
    async with client(console_app(Settings(embedded.namesrv))) as browser:
        yield browser


@asynccontextmanager
async def tools(server: Running) -> AsyncIterator[Admin]:
    async with Admin(server.namesrv) as admin:
        yield admin


async def send(server: Running, many: int, queue: MessageQueue = QUEUE, tags: str = "") -> None:
    async with Producer("pg", namesrv=server.namesrv) as producer:
        for n in range(many):
            await producer.send(Message(queue.topic, b"%d" % n, tags=tags or None), queue=queue)


def member(server: Running, group: str, topics: dict[str, str], **more: object) -> PushConsumer:
    options = {"namesrv": server.namesrv, "consume_from": ConsumeFrom.FIRST_OFFSET, **more}
    return PushConsumer(group, topics, **options)  # type: ignore[arg-type]


async def consumed(server: Running, group: str = "billing", many: int = 6) -> None:
    """A group that has consumed, and is offline."""
    await send(server, many)
    async with member(server, group, {"orders": "*"}) as reader:
        await take(reader, many)


def broker(server: Running) -> str:
    return "{}:{}".format(*server.broker_address)


async def offset(server: Running, group: str = "billing") -> int:
    async with tools(server) as admin:
        stats = await admin.groups.consume_stats(group, "orders")
        return next(q.consumer_offset for q in stats.queues if q.queue == QUEUE)


async def test_who_lags_comes_first(
    embedded: Running, console: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "FRESH", 0.0)
    monkeypatch.setattr(cache, "LONGEST", 0.0)
    await consumed(embedded, "billing", 3)
    async with tools(embedded) as admin:
        (await admin.groups.change("audit", {}, cluster=CLUSTER)).check_all()
        await admin.offsets.clone("billing", "audit", "orders")
    await send(embedded, 2)
    async with member(embedded, "billing", {"orders": "*"}) as reader:
        await take(reader, 2)
        await until(console, "/groups/billing/live", "Lag 0")
    found = ""

    async def look() -> bool:
        nonlocal found
        found = words(await console.get("/groups"))
        return "audit 2" in found and "billing 0" in found

    await eventually(look, "the lags of both groups")
    assert found.index("audit 2") < found.index("billing 0")
    assert "nobody" in found
    assert "CID_RMQ_SYS_TRANS" not in found
    assert "CID_RMQ_SYS_TRANS" in words(await console.get("/groups?system=1"))
    assert "billing" not in words(await console.get("/groups?q=AUD"))


@pytest.mark.parametrize(
    ("module", "bound", "most", "said"),
    [
        (consume_stats, "MAX_QUEUES", 7, "more than 7 queues"),
        (groups, "FULL_LISTS", 1, "there are more than 1 groups"),
    ],
    ids=["too many queues", "too many groups"],
)
async def test_lags_that_are_not_told_at_once(
    embedded: Running,
    console: Client,
    monkeypatch: pytest.MonkeyPatch,
    module: ModuleType,
    bound: str,
    most: int,
    said: str,
) -> None:
    await consumed(embedded, "behind", 2)
    await consumed(embedded, "again", 2)
    await send(embedded, 3)
    monkeypatch.setattr(module, bound, most)
    shown = words(await console.get("/groups?sort=-lag"))
    assert "not sorted by lag: " in shown
    assert said in shown
    assert shown.index("again") < shown.index("behind")
    assert "behind 5" in shown, "those of the page are asked one by one"


async def test_members_what_they_run_and_a_stuck_start(embedded: Running, console: Client) -> None:
    await send(embedded, 4)
    async with member(embedded, "slow", {"orders": "*"}, instance_name='<b>"x') as reader:
        message = await anext(aiter(reader))
        shown = await until(console, "/groups/slow", "Members 1", "orders lag 4")
        assert "Push consumers" in shown
        ran = words(await console.get("/groups/slow/members"))
        assert '<b>"x' in ran
        assert "PYTHON" in ran
        async with tools(embedded) as admin:
            (one,) = (await admin.groups.connections("slow")).connections
        path = f"/groups/slow/member?client={quote(one.client_id)}"
        shown = words(await console.get(path))
        assert "Queues that it has" in shown
        assert "PROP_CONSUME_TYPE" in shown
        stacks = await console.get(f"{path}&stacks=1")
        assert "File" in words(stacks)
        assert (await console.get("/groups/slow/member?client=other")).status == 404
        reader.acknowledge(message)
    assert (await console.get(path)).status == 404


async def test_members_that_differ(embedded: Running, console: Client) -> None:
    await send(embedded, 1)
    async with (
        member(embedded, "mixed", {"orders": "paid"}, instance_name="one"),
        member(embedded, "mixed", {"orders": "open"}, instance_name="two"),
    ):
        shown = await until(console, "/groups/mixed", "subscribe differently")
        assert "“paid”" in shown
        assert "“open”" in shown


async def test_a_broadcasting_group(embedded: Running, console: Client) -> None:
    await send(embedded, 1)
    model = MessageModel.BROADCASTING
    async with member(embedded, "news", {"orders": "*"}, message_model=model):
        shown = await until(console, "/groups/news", "keep their offsets themselves")
        assert "broadcast to" in shown
        reset = await console.get("/groups/news/reset?topic=orders&to=latest")
        assert "a reset would do nothing" in words(reset)


async def test_reset_with_a_preview(embedded: Running, console: Client) -> None:
    await consumed(embedded)
    assert await offset(embedded) == 6
    path = "/groups/billing/reset"
    assert "Preview" in words(await console.get(path))
    shown = await console.get(f"{path}?topic=orders&to=earliest")
    assert "broker-a 0 0 6 6 0 0 6" in words(shown), "from and to of the queue"
    assert "Repeated 6" in words(shown)
    assert await offset(embedded) == 6, "a preview moves nothing"
    queues = re.findall(r'name="queue" value="([^"]*)"', shown.text)
    form = {"group": "billing", "topic": "orders", "to": "earliest", "queue": queues}
    moved = await console.post(path, form)
    assert moved.status == 303, moved.text
    assert "are reset in" in words(await console.get(moved.headers["location"]))
    assert await offset(embedded) == 0

    latest = await console.get(f"{path}?topic=orders&to=latest")
    queues = re.findall(r'name="queue" value="([^"]*)"', latest.text)
    await send(embedded, 2)
    form = {"group": "billing", "topic": "orders", "to": "latest", "queue": queues}
    assert (await console.post(path, form)).status == 303
    assert await offset(embedded) == 6, "what came after the preview is not skipped"

    other = await console.post(path, {**form, "queue": queues[1:]})
    assert other.status == 422
    assert "preview again" in words(other)
    assert await offset(embedded) == 6


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("topic=orders&to=time&time=soon", "is no time"),
        ("topic=&to=latest", "choose the topic"),
        ("topic=nope&to=latest", "nope"),
        ("topic=orders&to=latest&broker=elsewhere", "not on broker elsewhere"),
        ("topic=orders&to=%3Cb%3E", "choose where to"),
    ],
)
async def test_resets_that_cannot_be(
    embedded: Running, console: Client, query: str, said: str
) -> None:
    await consumed(embedded, many=1)
    shown = await console.get(f"/groups/billing/reset?{query}")
    assert shown.status == 200
    assert said in words(shown)
    assert 'name="queue"' not in shown.text
    assert "<b>" not in shown.text


async def test_a_group_is_created_changed_paused_and_deleted(
    embedded: Running, console: Client
) -> None:
    await console.get("/groups/~/create")
    made = await console.post(
        "/groups/~/create", {"group": "100%|x", "cluster": CLUSTER, "retry_max_times": "5"}
    )
    assert made.status == 303, made.text
    path = f"/groups/{quote('100%|x', safe='')}"
    assert made.headers["location"] == path
    assert "retryMaxTimes 5" in words(await console.get(path))
    again = await console.post("/groups/~/create", {"group": "100%|x", "cluster": CLUSTER})
    assert "already" in words(again)

    form = {"group": "100%|x", "cluster": CLUSTER}
    changed = {**form, "retry_max_times": "7", "consume_message_orderly": "yes"}
    assert (await console.post(f"{path}/change", changed)).status == 303
    shown = words(await console.get(path))
    assert "retryMaxTimes 7" in shown
    assert "consumeMessageOrderly yes" in shown
    assert (await console.post(f"{path}/change", form)).status == 422
    wrong = {**form, "consume_enable": "perhaps"}
    assert (await console.post(f"{path}/change", wrong)).status == 422

    assert (await console.post(f"{path}/pause", {**form, "to": "pause"})).status == 303
    shown = words(await console.get(path))
    assert "paused" in shown
    assert "consumeEnable no" in shown
    assert "retryMaxTimes 7" in shown, "the rest stays"
    assert "100%|x paused" in words(await console.get("/groups"))
    assert (await console.post(f"{path}/pause", {**form, "to": "resume"})).status == 303
    assert "consumeEnable yes" in words(await console.get(path))

    assert (await console.post(f"{path}/delete", form)).status == 403
    gone = {**form, "_typed": "100%|x", "offsets": "1"}
    assert (await console.post(f"{path}/delete", gone)).status == 303
    assert (await console.get(path)).status == 404
    late = await console.post(f"{path}/change", changed)
    assert "no group" in words(late), "a change does not create it again"


async def test_a_group_that_had_offsets_before_it_had_members(
    embedded: Running, console: Client
) -> None:
    await send(embedded, 3)
    async with tools(embedded) as admin:
        (await admin.groups.change("early", {}, cluster=CLUSTER)).check_all()
        await admin.offsets.set(broker(embedded), "early", QUEUE, 1)
    assert "orders lag 2" in words(await console.get("/groups/early"))


async def test_offsets_and_topics_go_with_a_group_if_that_is_asked(
    embedded: Running, console: Client
) -> None:
    await consumed(embedded)
    await console.get("/groups/billing/delete")
    form = {"group": "billing", "cluster": CLUSTER, "_typed": "billing"}
    gone = await console.post("/groups/billing/delete", {**form, "offsets": "1", "topics": "1"})
    assert gone.status == 303, gone.text
    async with tools(embedded) as admin:
        assert "%RETRY%billing" not in await admin.topics.list()
        assert "billing" not in await admin.topics.groups("orders")


@pytest.mark.parametrize("path", ["nope", "no%20pe", "a%2Fb", "%3Cscript%3E", "x" * 600])
async def test_groups_that_are_not_there(console: Client, path: str) -> None:
    for part in ("", "/change", "/delete", "/pause", "/reset"):
        shown = await console.get(f"/groups/{path}{part}")
        assert shown.status == 404
        assert "<script>" not in shown.text


async def test_nothing_changes_in_read_only_mode(embedded: Running) -> None:
    await consumed(embedded)
    async with client(console_app(Settings(embedded.namesrv, read_only=True))) as browser:
        page = await browser.get("/groups/billing")
        assert "/groups/billing/delete" not in page.text
        preview = await browser.get("/groups/billing/reset?topic=orders&to=earliest")
        assert 'name="queue"' not in preview.text
        form = {"group": "billing", "cluster": CLUSTER, "_typed": "billing", "to": "pause"}
        for part in ("delete", "pause", "change", "reset"):
            assert (await browser.post(f"/groups/billing/{part}", form)).status == 403
    assert await offset(embedded) == 6
