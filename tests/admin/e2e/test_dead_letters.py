"""Dead letters: `admin.dead_letters` and `pyrmq admin dlq …`."""

from __future__ import annotations

import json
import os
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from pyrmq.admin import Admin, resend
from pyrmq.admin.dead_letters import RESENT_FROM, Selection
from pyrmq.admin.resend import Resent, ResentState, To
from pyrmq.client import ConsumeFrom, PushConsumer
from pyrmq.errors import ClientError, ConnectError
from pyrmq.model.message import Message
from pyrmq.model.record import ReceivedMessage
from pyrmq.server import Running
from tests.admin.e2e.test_groups import broker
from tests.support.dead_letters import die, make_group, send_all
from tests.support.mqadmin import Ran, admin
from tests.support.waiting import until

GROUP, TOPIC, OTHER = "Dying", "Orders", "Mails"


async def _three(server: Running, tools: Admin) -> None:
    """Three dead letters: two of Orders, one of Mails."""
    await make_group(tools, server.namesrv, GROUP, broker(server))
    sent = await send_all(
        server.namesrv,
        Message(TOPIC, b"first", tags="A", keys="o-1 both", flag=7, properties={"own": "1"}),
        Message(TOPIC, b"\xff\xfe", keys="o-2"),
        Message(OTHER, b"mail", keys="both"),
    )
    await die(tools, GROUP, broker(server), *sent)


async def _stored(tools: Admin, topic: str) -> list[ReceivedMessage]:
    found = []
    for queue in await tools.messages.queues(topic):
        part = await tools.messages.slice(queue)
        async with aclosing(tools.messages.read(part)) as messages:
            found += [m async for m in messages]
    return found


async def _resend(tools: Admin, to: To, selection: Selection, **how: Any) -> list[Resent]:
    plan = await tools.dead_letters.preview(GROUP, to, selection)
    return [one async for one in tools.dead_letters.resend(plan, **how)]


def _objects(ran: Ran) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ran.lines]


async def test_listed_and_looked_at(embedded: Running) -> None:
    none = await admin(embedded.namesrv, "dlq", "list")
    assert (none.code, none.out) == (0, "no group has dead letters\n")
    async with Admin(embedded.namesrv) as tools:
        await _three(embedded, tools)
        (row,) = [one async for one in tools.dead_letters.groups()]
        assert (row.group, row.count, row.topics) == (GROUP, 3, {TOPIC: 2, OTHER: 1})
        assert 0 < row.oldest <= row.newest
        letters = await tools.dead_letters.find(GROUP, limit=2)
        assert [one.message.body for one in letters] == [b"\xff\xfe", b"mail"]
        oldest = await tools.dead_letters.find(GROUP, limit=1, newest=False)
        assert [one.message.body for one in oldest] == [b"first"]
        with pytest.raises(ClientError, match="group Nobody has no dead letters"):
            await tools.dead_letters.find("Nobody")
    listed = await admin(embedded.namesrv, "dlq", "list")
    assert listed.lines[1].split()[:2] == [GROUP, "3"]
    assert f"{TOPIC} 2, {OTHER} 1" in listed.lines[1]
    only = await admin(embedded.namesrv, "dlq", "list", f"%DLQ%{GROUP}", "-o", "json")
    (shown,) = json.loads(only.out)
    assert (shown["letters"], shown["sampled"], shown["brokers"]) == (3, 3, ["broker-a"])
    looked = await admin(embedded.namesrv, "dlq", "look", GROUP, "--key", "o-1")
    assert looked.code == 0, looked.err
    assert f"of topic {TOPIC}" in looked.lines[0]
    for line in ("  own=1", "  body of 5 bytes, text: first"):
        assert line in looked.lines
    as_json = await admin(
        embedded.namesrv, "dlq", "look", GROUP, "--topic", TOPIC, "-o", "json", "--limit", "1"
    )
    (letter,) = json.loads(as_json.out)
    assert (letter["topic"], letter["keys"], letter["resent"]) == (TOPIC, ["o-2"], [])
    assert letter["body"] == {"base64": "//4="}
    hexed = await admin(embedded.namesrv, "dlq", "look", GROUP, "--id", letter["id"])
    assert "  body of 2 bytes, hex: fffe" in hexed.lines
    unknown = await admin(embedded.namesrv, "dlq", "look", "Nobody")
    assert (unknown.code, unknown.out) == (2, "")


async def test_selections(embedded: Running) -> None:
    async with Admin(embedded.namesrv) as tools:
        await _three(embedded, tools)
        first, second, third = await tools.dead_letters.find(GROUP)

        async def bodies(**chosen: Any) -> list[bytes]:
            found = await tools.dead_letters.find(GROUP, Selection(**chosen))
            return [one.message.body for one in found]

        assert await bodies(key="both") == [b"first", b"mail"]
        assert await bodies(key="both", topic=OTHER) == [b"mail"]
        assert await bodies(ids=frozenset({second.id.lower()})) == [b"\xff\xfe"]
        assert await bodies(ids=frozenset({third.message.msg_id})) == [b"mail"]
        assert first.origin_id is not None
        assert await bodies(ids=frozenset({first.origin_id})) == [b"first"]
        assert await bodies(begin=third.message.store_timestamp + 60_000) == []
        assert await bodies(end=first.message.store_timestamp) == []


async def test_resent_to_the_topic_once(embedded: Running) -> None:
    async with Admin(embedded.namesrv) as tools:
        await _three(embedded, tools)
        (letter,) = await tools.dead_letters.find(GROUP, Selection(key="o-1"))
        (done,) = await _resend(tools, To.TOPIC, Selection(key="o-1"))
        assert (done.state, done.target) == (ResentState.SENT, TOPIC)
        (again,) = [m for m in await _stored(tools, TOPIC) if RESENT_FROM in m.properties]
        assert again.properties[RESENT_FROM] == letter.id
        assert (again.body, again.tags, again.keys) == (b"first", "A", ["o-1", "both"])
        assert (again.flag, again.properties["own"]) == (7, "1")
        assert again.msg_id == letter.message.msg_id
        assert again.reconsume_times == 0
        for name in ("RETRY_TOPIC", "ORIGIN_MESSAGE_ID", "DELAY", "REAL_TOPIC"):
            assert name not in again.properties

        async def known() -> bool:
            return bool(await tools.dead_letters.resent(letter))

        await until(known, "the index knows the message")
        (twice,) = await _resend(tools, To.TOPIC, Selection(key="o-1"))
        assert (twice.state, twice.target) == (ResentState.SKIPPED, TOPIC)
        (group,) = await _resend(tools, To.GROUP, Selection(key="o-1"))
        assert group.state is ResentState.SKIPPED
        rest = await _resend(tools, To.TOPIC, Selection())
        states = sorted(one.state.value for one in rest)
        assert states == ["sent", "sent", "skipped"]
        (forced,) = await _resend(tools, To.TOPIC, Selection(key="o-1"), again=True)
        assert forced.state is ResentState.SENT


async def test_resent_to_the_group_alone(embedded: Running) -> None:
    async with Admin(embedded.namesrv) as tools:
        await _three(embedded, tools)
        before = len(await _stored(tools, TOPIC))
        (done,) = await _resend(tools, To.GROUP, Selection(key="o-1"))
        assert (done.state, done.target) == (ResentState.SENT, f"%RETRY%{GROUP}")
        assert len(await _stored(tools, TOPIC)) == before
        async with PushConsumer(
            GROUP, {"Elsewhere": "*"}, namesrv=embedded.namesrv,
            consume_from=ConsumeFrom.FIRST_OFFSET,
        ) as consumer:  # fmt: skip
            async for message in consumer:
                consumer.acknowledge(message)
                if message.topic == TOPIC:
                    assert (message.body, message.reconsume_times) == (b"first", 0)
                    break


async def test_a_topic_that_is_gone(embedded: Running) -> None:
    async with Admin(embedded.namesrv) as tools:
        await _three(embedded, tools)
        (await tools.topics.delete(TOPIC, "DefaultCluster")).check_all()
        plan = await tools.dead_letters.preview(GROUP, To.TOPIC)
        assert {row.topic: row.error is None for row in plan.rows} == {TOPIC: False, OTHER: True}
        assert (plan.letters, plan.to_send) == (3, 1)
    ran = await admin(
        embedded.namesrv, "dlq", "resend", GROUP, "--to", "topic", "--all", "-y", "-o", "json"
    )
    assert ran.code == 3
    found = _objects(ran)
    assert sorted(one["state"] for one in found) == ["failed", "failed", "sent"]
    for one in found:
        if one["state"] == "failed":
            assert f"topic {TOPIC} does not exist" in one["error"]
            assert "resend to the group" in one["error"]
    assert f"group {GROUP}: 1 sent, 2 failed" in ran.err
    group = await admin(
        embedded.namesrv, "dlq", "resend", GROUP, "--to", "group", "--topic", TOPIC, "-y"
    )
    assert group.code == 0, group.err
    assert len([line for line in group.lines if line.startswith("sent ")]) == 2


async def test_the_question_and_the_preview(embedded: Running) -> None:
    async with Admin(embedded.namesrv) as tools:
        await _three(embedded, tools)
        await make_group(tools, embedded.namesrv, "Others", broker(embedded))
        (queue, *_) = await tools.messages.queues(TOPIC)
        for group in (GROUP, "Others"):
            await tools.offsets.set(broker(embedded), group, queue, 0)
    words = ("dlq", "resend", GROUP, "--to", "topic")
    for wrong in ((), ("--all", "--key", "o-1")):
        assert (await admin(embedded.namesrv, *words, *wrong)).code == 1
    asked = await admin(embedded.namesrv, *words, "--all")
    assert asked.code == 1
    assert "Resend 3 dead letters" in asked.err
    assert f"groups that consume {TOPIC} and get them too: Others" in asked.err
    assert "no member of it runs now" in asked.err
    # Whoever sends a message may say that it came from any topic.
    assert f"group {GROUP} does not consume {OTHER}: " in asked.err
    assert f"does not consume {TOPIC}: " not in asked.err
    dry = await admin(embedded.namesrv, *words, "--all", "--dry-run", "-o", "json")
    shown = json.loads(dry.out)
    assert (shown["letters"], shown["toSend"], shown["members"]) == (3, 3, 0)
    assert {t["topic"]: t["foreign"] for t in shown["topics"]} == {OTHER: True, TOPIC: False}
    async with Admin(embedded.namesrv) as tools:
        assert not [m for m in await _stored(tools, TOPIC) if RESENT_FROM in m.properties]


async def test_exported(embedded: Running, tmp_path: Path) -> None:
    async with Admin(embedded.namesrv) as tools:
        await _three(embedded, tools)
    file = tmp_path / "letters.jsonl"
    ran = await admin(embedded.namesrv, "dlq", "export", GROUP, "-f", str(file))
    assert ran.code == 0, ran.err
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert [row["body"] for row in rows] == ["first", {"base64": "//4="}, "mail"]
    out = await admin(embedded.namesrv, "dlq", "export", GROUP, "--topic", OTHER)
    assert [row["body"] for row in _objects(out)] == ["mail"]
    gone = await admin(embedded.namesrv, "dlq", "export", "Nobody", "-f", str(tmp_path / "no"))
    assert gone.code == 2
    assert os.listdir(tmp_path) == ["letters.jsonl"]


async def test_what_is_not_known_is_not_sent_twice(
    embedded: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that does not answer may have the resent message."""
    async with Admin(embedded.namesrv) as tools:
        await _three(embedded, tools)

        async def silent(letter: object) -> list[ReceivedMessage]:
            raise ConnectError("broker-b does not answer")

        monkeypatch.setattr(tools.dead_letters, "resent", silent)
        monkeypatch.setattr(resend, "INDEXED", 0.0)
        plan = await tools.dead_letters.preview(GROUP, To.TOPIC, Selection(key="o-1"))
        assert ([row.unclear for row in plan.rows], plan.to_send) == ([1], 0)
        (failed,) = await _resend(tools, To.TOPIC, Selection(key="o-1"))
        assert failed.state is ResentState.FAILED
        assert "not known whether it was resent" in str(failed.error)
        (forced,) = await _resend(tools, To.TOPIC, Selection(key="o-1"), again=True)
        assert forced.state is ResentState.SENT


async def test_a_group_that_consumes_in_order(embedded: Running) -> None:
    """The broker makes a message to its retry topic a dead letter at once."""
    async with Admin(embedded.namesrv) as tools:
        await _three(embedded, tools)
        async with PushConsumer(
            GROUP, {"Elsewhere": "*"}, namesrv=embedded.namesrv, orderly=True, listener=_take,
            consume_from=ConsumeFrom.FIRST_OFFSET,
        ):  # fmt: skip

            async def locked() -> bool:
                stats = await tools.groups.consume_stats(GROUP, "Elsewhere")
                return stats.diff == 0

            await until(locked, "the member holds the locks of its queues")
            (done,) = await _resend(tools, To.GROUP, Selection(key="o-1"))
            assert done.state is ResentState.FAILED
            assert "consume in order; resend it to the topic" in str(done.error)


async def _take(message: object) -> None:
    pass
