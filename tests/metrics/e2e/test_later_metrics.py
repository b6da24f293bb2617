"""What a broker shows of transactions, timers, pops and requests that make topics and groups."""

from __future__ import annotations

import json

from pyrmq.testing import TestServer
from tests.metrics.e2e.scrape import Scrape, scrape
from tests.support.client import Client
from tests.support.operators import create_topic
from tests.support.popping import ack, pop
from tests.support.transactions import COMMIT, end, send_half
from tests.support.waiting import eventually
from tests.support.wire import Command

UPDATE_GROUP, INVALID_PARAMETER = 200, 29
REVIVE = "rocketmq_pop_revive"


def test_times_from_halves_to_their_commits(server: TestServer, client: Client) -> None:
    create_topic(client, "T")
    half = send_half(client, "T")
    server.clock.advance(90)
    assert end(client, half, COMMIT).code == 0
    page = scrape(server)
    name = "rocketmq_finish_message_latency"
    assert page.one(f"{name}_count", topic="T") == 1
    assert 90 <= page.one(f"{name}_sum", topic="T") < 600
    assert page.one(f"{name}_bucket", topic="T", le="60.0") == 0
    assert page.one(f"{name}_bucket", topic="T", le="600.0") == 1


def test_timers_by_topic_and_by_when_they_are_due(server: TestServer, client: Client) -> None:
    for topic in ("T", "U"):
        create_topic(client, topic)
    for seconds in (30, 40, 7200):
        client.send("T", properties={"TIMER_DELAY_SEC": str(seconds)})
    client.send("U", properties={"TIMER_DELAY_SEC": "100"})
    store = {"storage_type": "local", "storage_medium": "disk"}

    def all_are_in() -> Scrape | None:
        page = scrape(server)
        return page if page.one("rocketmq_timer_dequeue_lag", **store) == 4 else None

    page = eventually(all_are_in, "all of them are in the wheel")
    assert page is not None
    assert page.one("rocketmq_timing_messages", topic="T", **store) == 3
    assert page.one("rocketmq_timer_enqueue_total", topic="T", **store) == 3
    name = "rocketmq_delay_message_latency"
    assert page.one(f"{name}_bucket", topic="T", le="60.0") == 2
    assert page.one(f"{name}_bucket", topic="T", le="43200.0") == 3
    assert 30 + 40 + 7200 - 3 <= page.one(f"{name}_sum", topic="T") <= 30 + 40 + 7200
    assert page.one(f"{name}_count", topic="U") == 1
    due = page.rows("rocketmq_timer_message_snapshot", **store, node_id="broker-a")
    assert [value for _, value in sorted(due.items(), key=lambda row: int(row[0][0]))] == [
        0, 2, 1, 0, 0, 1, 0, 0,
    ]  # fmt: skip
    assert [int(bound) for (bound,) in due] == [5, 60, 300, 900, 3600, 14_400, 28_800, 86_400]
    server.clock.advance(60)

    def delivered() -> Scrape | None:
        page = scrape(server)
        done = page.rows("rocketmq_timer_dequeue_total", topic="T", node_id="broker-a")
        left = page.one("rocketmq_timer_dequeue_lag", **store)  # a thread counts it
        return page if sum(done.values()) == 2 and left == 2 else None

    page = eventually(delivered, "two are delivered, and two are left")
    assert page is not None
    assert page.one("rocketmq_timer_dequeue_total", topic="U", **store) == 0


def test_what_goes_through_the_revive_topic(server: TestServer, client: Client) -> None:
    create_topic(client, "T")
    for _ in range(3):
        client.send("T")
    messages = pop(client, "T", "G", maxMsgNums=3)
    assert len(messages) == 3
    ack(client, messages[1], "G")
    page = scrape(server)
    pair = {"consumer_group": "G", "topic": "T"}
    stored = {**pair, "put_status": "PUT_OK"}
    name = f"{REVIVE}_in_message_total"
    assert page.one(name, **stored, revive_message_type="CK") == 1
    assert page.one(name, **stored, revive_message_type="ACK") == 1
    assert page.rows(f"{REVIVE}_out_message_total") == {}
    server.clock.advance(120)

    def revived() -> Scrape | None:
        page = scrape(server)
        rows = page.rows(f"{REVIVE}_retry_messages_total", **stored)
        return page if sum(rows.values()) == 2 else None

    page = eventually(revived, "what was not acknowledged comes again")
    assert page is not None
    name = f"{REVIVE}_out_message_total"
    assert page.one(name, **pair, revive_message_type="CK") == 1
    assert page.one(name, **pair, revive_message_type="ACK") == 1
    queue = messages[0].handle.revive_queue
    assert sum(page.rows(name, **pair, queue_id=str(queue)).values()) == 2


def test_requests_that_make_topics_and_groups(server: TestServer, client: Client) -> None:
    assert scrape(server).rows("rocketmq_topic_create_execution_time_count") == {}
    for _ in range(2):
        assert create_topic(client, "T").code == 0
    assert create_topic(client, "T", perm=99).code == INVALID_PARAMETER
    assert create_topic(client, "RMQ_SYS_TRACE_TOPIC").code in (0, INVALID_PARAMETER)
    for name, code in (("G", 0), ("a group", INVALID_PARAMETER)):
        body = json.dumps({"groupName": name}).encode()
        assert client.request(Command(UPDATE_GROUP, body=body)).code == code
    page = scrape(server)
    name = "rocketmq_topic_create_execution_time"
    good, bad = {"invocation_status": "success"}, {"invocation_status": "failure"}
    assert page.one(f"{name}_count", **good, is_system="false") == 2
    assert page.one(f"{name}_count", **bad, is_system="false") == 1
    assert sum(page.rows(f"{name}_count", is_system="true").values()) == 1
    assert 0 < page.one(f"{name}_sum", **good, is_system="false") < 120_000
    assert page.one(f"{name}_bucket", **good, is_system="false", le="+Inf") == 2
    name = "rocketmq_consumer_group_create_execution_time"
    assert page.one(f"{name}_count", **good) == 1
    assert page.one(f"{name}_count", **bad) == 1
