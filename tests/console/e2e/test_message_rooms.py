"""The room of messages on a broker: what is found, and what is changed."""

from __future__ import annotations

import html
import json
import re

import pytest

from pyrmq.admin import Admin
from pyrmq.client import ConsumeFrom, Producer, PushConsumer
from pyrmq.console.app import console_app
from pyrmq.console.messages import listing
from pyrmq.console.messages.listing import Asked, listed
from pyrmq.console.pages import messages
from pyrmq.console.settings import Settings
from pyrmq.errors import ClientError
from pyrmq.model.message import Message
from pyrmq.model.record import ReceivedMessage
from pyrmq.namesrv import NameServer
from pyrmq.namesrv.config import NamesrvConfig
from pyrmq.net.tasks import Tasks
from pyrmq.server import Running
from tests.console import asgi, message_data
from tests.console.message_data import GROUP, LETTERS, SCRIPT
from tests.console.message_rooms import CHOSEN, links, rooms
from tests.support.waiting import eventually_trio, until

pytestmark = pytest.mark.usefixtures("deadline")
_NEXT = re.compile(r'rel="next" href="([^"]+)"')


async def test_messages_are_found(embedded: Running) -> None:
    async with rooms(embedded) as there:
        await message_data.send_bodies(embedded.namesrv)
        broker = embedded.broker_address
        await message_data.send_packed(there.admin, f"{broker[0]}:{broker[1]}")
        every = await there.text("/messages?topic=bodies")
        assert len(links(every)) == len(message_data.BODIES) + 2 + 6
        (one,) = await there.keyed("bodies", "html")
        page = await there.text(one)
        assert SCRIPT not in page
        assert html.escape(SCRIPT) in page
        fields = dict(part.split("=") for part in one.partition("?")[2].split("&"))
        by_offset = await there.text(
            f"/messages?topic=bodies&queue={fields['queue']}&offset={fields['offset']}"
        )
        assert links(by_offset)[0] == one
        unique_id, offset_id = re.findall(r'<dd class="mono">([0-9A-F]{32})<', page)
        assert links(await there.text(f"/messages?id={offset_id}")) == [one]
        assert links(await there.text(f"/messages?topic=bodies&id={unique_id}")) == [one]
        assert "say its topic" in await there.text(f"/messages?id={unique_id}")
        assert links(await there.text("/messages?topic=bodies&begin=1h&end=now")) != []
        assert links(await there.text("/messages?topic=bodies&end=1h")) == []
        assert links(await there.text("/messages?topic=bodies&tags=none")) == []
        for wrong, why in (
            ("topic=nowhere", "nowhere"),
            ("key=order-7", "Name the topic too"),
            ("topic=bodies&key=nobody", "no message has the key nobody"),
            ("topic=bodies&id=xyz", "no message id"),
            ("topic=bodies&begin=soon", "is no time"),
            ("topic=bodies&queue=77", "no such queue"),
            ("topic=bodies&cursor=x", "begin with its first page"),
        ):
            assert why in html.unescape(await there.text(f"/messages?{wrong}"))
        assert "orders" not in await there.text("/messages/names?topic=bod")
        assert 'value="bodies"' in await there.text("/messages/names?topic=OD")


async def test_bodies_are_bounded_and_downloads_are_whole(embedded: Running) -> None:
    async with rooms(embedded) as there:
        await message_data.send_bodies(embedded.namesrv)
        broker = embedded.broker_address
        await message_data.send_packed(there.admin, f"{broker[0]}:{broker[1]}")

        async def place(key: str) -> str:
            (one,) = await there.keyed("bodies", key)
            return one.partition("?")[2]

        large = await place("large")
        assert len(await there.text(f"/messages/one?{large}")) < 400_000
        body = await there.pages.get(f"/messages/body?{large}")
        assert body.body == message_data.BODIES["large"]
        assert body.headers["content-disposition"].startswith("attachment;")
        assert body.headers["content-type"] == "application/octet-stream"
        assert body.headers["x-content-type-options"] == "nosniff"
        bomb = await place("bomb-ZLIB")
        assert "compressed with ZLIB" in await there.text(f"/messages/one?{bomb}")
        assert (await there.pages.get(f"/messages/body?{bomb}")).body == message_data.BOMB
        packed = await there.pages.get(f"/messages/body?{bomb}&as=stored")
        assert len(packed.body) < 100_000
        for key in ("cut", "damaged", "unknown"):
            at = await place(key)
            await there.text(f"/messages/one?{at}")
            refused = await there.text(f"/messages/body?{at}", 400)
            assert "download the body as it is stored" in refused
            assert (await there.pages.get(f"/messages/body?{at}&as=stored")).status == 200
        many = await place("many")
        assert "3" in await there.text(f"/messages/one?{many}")
        data = json.loads((await there.pages.get(f"/messages/data?{many}")).body)
        assert message_data.PROPERTIES.items() <= data["properties"].items()
        hostile = await there.text(f"/messages/one?{await place('hostile')}")
        assert "\u202e" not in hostile
        assert "\\u202evalue" in hostile


async def test_pages_of_a_list(embedded: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "PAGE", 7)
    async with Producer("p", namesrv=embedded.namesrv) as producer:
        for n in range(60):
            await producer.send(Message("many", b"x" * (1 + n * 50), tags=f"t{n % 5}", keys=str(n)))
    async with Admin(embedded.namesrv) as admin:

        async def walk(**of: object) -> list[str]:
            found: list[str] = []
            cursor = ""
            while True:
                asked = Asked("many", cursor=cursor, **of)  # type: ignore[arg-type]
                part = await listed(admin, asked, limit=7)
                assert part.failed == []
                found += [m.keys[0] for m in part.messages]
                cursor = part.next
                if not cursor:
                    return found

        every = [str(n) for n in range(60)]
        oldest, newest = await walk(newest=False), await walk()
        assert sorted(oldest, key=int) == sorted(newest, key=int) == every
        times = {m.keys[0]: m.store_timestamp async for m in _all(admin, "many")}
        assert [times[k] for k in oldest] == sorted(times.values())
        assert [times[k] for k in newest] == sorted(times.values(), reverse=True)
        assert sorted(await walk(tags="t1 || t3"), key=int) == [
            k for k in every if int(k) % 5 in (1, 3)
        ]
        (queue, *_) = await admin.messages.queues("many")
        only = await walk(queue_id=queue.queue_id, broker=queue.broker_name)
        assert 0 < len(only) < 60
        last = [m async for m in _all(admin, "many")][-1]
        assert last.keys[0] not in await walk(end=last.store_timestamp)
        monkeypatch.setattr(listing, "MOST_SCANNED", 10)
        early = await listed(admin, Asked("many", tags="t1"), limit=50)
        assert "looked at" in early.early
        assert sorted(await walk(tags="t1"), key=int) == [k for k in every if int(k) % 5 == 1]
        monkeypatch.setattr(listing, "MOST_QUEUES", 1)
        with pytest.raises(ClientError, match="name a broker or a queue"):
            await listed(admin, Asked("many"))


async def test_links_to_the_next_page(embedded: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "PAGE", 2)
    async with rooms(embedded) as there:
        broker = embedded.broker_address
        async with Producer("p", namesrv=embedded.namesrv) as producer:
            for n in range(5):
                await producer.send(Message("five", b"x", keys=str(n), tags="A"))
                await producer.send(Message("five", b"x", keys=str(n), delay_time_level=17))
                await producer.send(Message("five", b"x", keys=str(n), delay=3600 + n))
        await message_data.send_letters(there.admin, embedded.namesrv, f"{broker[0]}:{broker[1]}")
        for path, count in (
            ("/messages?topic=five", 5),
            ("/messages?topic=five&order=oldest&tags=A&begin=1h", 5),
            (f"/dead-letters/group?group={GROUP}&begin=1h", LETTERS + 1),
            ("/delay/level?broker=broker-a&level=17&from=0", 5),
            ("/delay/timers?topic=five", 5),
        ):
            seen: list[str] = []
            after = path
            while after:
                page = await there.text(after)
                seen += links(page)
                after = "".join(links(page, _NEXT))
            assert len(seen) == len(set(seen)) == count, path


async def _all(admin: Admin, topic: str):  # type: ignore[no-untyped-def]
    for queue in await admin.messages.queues(topic):
        async for message in admin.messages.read(await admin.messages.slice(queue)):
            yield message


async def test_an_id_leads_to_no_other_address(embedded: Running) -> None:
    async with rooms(embedded) as there:
        elsewhere = "7F000001" + "00000007" + "0" * 16
        assert "is no offset id" in await there.text(f"/messages?id={elsewhere}")
        assert "no broker of this cluster" in await there.text(f"/traces?id={elsewhere}")
        refused = await there.text("/transactions/one?broker=127.0.0.1:7&id=1", 400)
        assert "no master of this cluster" in refused


async def test_a_copy_and_a_delivery(embedded: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    async with rooms(embedded) as there:
        async with Producer("p", namesrv=embedded.namesrv) as producer:
            sent = await producer.send(
                Message("orders", b"<b>", tags="A", keys="k", properties={"own": "1"}),
                sharding_key="s",
            )
        (one,) = links(await there.text("/messages?topic=orders"))
        at = one.partition("?")[2]
        asks = await there.text(f"/messages/resend?{at}")
        assert "Every group that consumes the topic gets it" in asks
        form = dict(re.findall(r'type="hidden" name="([a-z]+)" value="([^"]*)"', asks))
        assert "A copy was sent" in await there.changed("/messages/resend", form)
        await there.keyed("orders", "k", 2)
        first, second = [m async for m in _all(there.admin, "orders")]
        assert second.properties["own"] == "1"
        assert second.queue_id == first.queue_id
        assert second.msg_id != sent.msg_id
        got: list[str] = []

        async def listener(message: ReceivedMessage) -> None:
            got.append(message.msg_id)

        async with PushConsumer(
            "readers", {"orders": "*"}, namesrv=embedded.namesrv, listener=listener,
            consume_from=ConsumeFrom.FIRST_OFFSET,
        ):  # fmt: skip
            await eventually_trio(lambda: len(got) == 2, "both are consumed")

            async def member() -> str:
                page = await there.text(f"/messages/deliver?{at}&group=readers")
                return "".join(re.findall(r'name="client" value="([^"]+)"', page))

            chosen = {"group": "readers", "client": await until(member, "the member is there")}
            assert "/groups/readers" in await there.text(f"/messages/consumers?{at}")
            monkeypatch.setattr(messages, "MOST_GROUPS", 0)
            assert "too many to ask" in await there.text(f"/messages/consumers?{at}")
            after = await there.changed("/messages/deliver", {**form, **chosen})
            assert "of group readers answered CR_SUCCESS" in after
            assert got[2:] == [first.msg_id]
            answer = await there.pages.post(
                "/messages/deliver", {**form, **chosen, "client": "nobody"}
            )
            assert (answer.status, "no connected member" in answer.text) == (422, True)
        assert "No member of the group" in await there.text(f"/messages/deliver?{at}&group=nobody")


async def test_the_life_of_a_message(embedded: Running) -> None:
    async with rooms(embedded) as there:
        async with Producer("p", namesrv=embedded.namesrv) as producer:
            sent = await producer.send(Message("orders", b"x", keys="k"))

        async def known() -> bool:
            page = await there.text(f"/traces?id={sent.msg_id}&topic=orders")
            return links(page) != []

        await until(known, "the index has the message")
        by_key = await there.text("/traces?key=k&topic=orders")
        assert sent.msg_id in by_key
        unknown = await there.text("/traces?id=" + "0" * 31 + "1")
        assert "nothing is known" in unknown or "no broker" in unknown


async def test_without_a_broker() -> None:
    names_only = NameServer(NamesrvConfig(listen_port=0, bind_address="127.0.0.1"), None)
    async with Tasks() as tasks:
        await tasks.start(names_only.run)
        settings = Settings(names_only.reachable)
        async with asgi.client(console_app(settings)) as pages:
            for path in ("/transactions", "/delay"):
                answer = await pages.get(path)
                assert (answer.status, "no broker that is a master" in answer.text) == (200, True)
            for path in ("/messages?topic=orders", "/dead-letters"):
                assert (await pages.get(path)).status == 200


async def test_nothing_is_changed_by_who_may_only_read(embedded: Running) -> None:
    async with rooms(embedded, read_only=True) as there:
        await message_data.send_waiting(embedded.namesrv)
        page = await there.text("/transactions")
        assert links(page, CHOSEN) == []
        half = (await there.admin.transactions.pending()).values[0].table.rows()[0]
        for path, form in (
            ("/transactions/commit", {"chosen": f"{half.broker}/{half.offset_msg_id}"}),
            ("/messages/resend", {"topic": "later", "broker": "b", "queue": 0, "offset": 0}),
            ("/messages/deliver", {"topic": "later", "group": "g", "client": "c"}),
            ("/dead-letters/resend", {"group": GROUP, "to": "topic"}),
            ("/delay/recall", {"broker": "broker-a", "offset": 0}),
        ):
            answer = await there.pages.post(path, form)
            assert (answer.status, "read-only" in answer.text) == (403, True), path
        assert (await there.admin.transactions.pending()).values[0].table.count == 2
