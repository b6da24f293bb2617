"""What a broker shows of its messages, groups, clients and store, read by Prometheus' parser."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

import pyrmq.testing
from pyrmq.broker.metrics.families import FAMILIES
from pyrmq.metrics import exposition, process, rpc
from pyrmq.metrics.families import OTHERS
from pyrmq.testing import TestServer
from tests.metrics.e2e.scrape import SERVED, Scrape, get, scrape
from tests.support.client import UPDATE_CONSUMER_OFFSET, Client
from tests.support.operators import create_topic
from tests.support.transactions import COMMIT, ROLLBACK, end, send_half
from tests.support.waiting import eventually

CONSUMER_SEND_MSG_BACK = 36
NODE = {"cluster": "DefaultCluster", "node_type": "broker", "node_id": "broker-a"}
PLAIN = {"is_retry": "false", "is_system": "false"}


@pytest.fixture
def server() -> Iterator[TestServer]:
    with pyrmq.testing.broker(**SERVED, metrics_label="zone:a") as running:
        yield running


def commit(client: Client, group: str, topic: str, offset: int, queue: int = 0) -> None:
    answer = client.call(
        UPDATE_CONSUMER_OFFSET,
        consumerGroup=group,
        topic=topic,
        queueId=queue,
        commitOffset=offset,
    )
    assert answer.code == 0


def test_messages_in_and_out(server: TestServer, client: Client) -> None:
    create_topic(client, "T", 2)
    sizes = [client.send("T", b"x" * 100, queue_id=n % 2) for n in range(10)]
    assert all(answer.code == 0 for answer in sizes)
    client.heartbeat("c1", "G", "T")
    assert len(client.pull("T", 0, 0, group="G").records) == 5
    commit(client, "G", "T", 2)
    commit(client, "G", "T", 1, queue=1)
    page = scrape(server)
    topic = {"topic": "T", "is_system": "false"}
    assert page.one("rocketmq_messages_in_total", **topic, message_type="normal") == 10
    assert page.one("rocketmq_throughput_in_total", **topic) > 1000
    pair = {"topic": "T", "consumer_group": "G", **PLAIN}
    assert page.one("rocketmq_messages_out_total", **pair) == 5
    assert page.one("rocketmq_throughput_out_total", **pair) > 500
    assert page.one("rocketmq_consumer_lag_messages", **pair) == 3 + 4
    assert page.one("rocketmq_consumer_inflight_messages", **pair) == 3
    assert page.one("rocketmq_consumer_ready_messages", **pair) == 4
    server.clock.advance(60)
    page = scrape(server)
    assert 60_000 <= page.one("rocketmq_consumer_lag_latency", **pair) < 600_000
    assert 60_000 <= page.one("rocketmq_consumer_queueing_latency", **pair) < 600_000
    commit(client, "G", "T", 5)
    commit(client, "G", "T", 5, queue=1)
    page = scrape(server)
    assert page.one("rocketmq_consumer_lag_messages", **pair) == 0
    assert page.one("rocketmq_consumer_lag_latency", **pair) == 0
    assert page.one("rocketmq_consumer_queueing_latency", **pair) == 0


def test_a_group_without_members_is_still_behind(server: TestServer, client: Client) -> None:
    create_topic(client, "T")
    client.send("T")
    commit(client, "G", "T", 0)
    assert scrape(server).one("rocketmq_consumer_lag_messages", consumer_group="G") == 1


def test_a_topic_that_members_do_not_want_any_more_has_no_lag(
    server: TestServer, client: Client
) -> None:
    create_topic(client, "Old")
    create_topic(client, "New")
    client.send("Old")
    commit(client, "G", "Old", 0)
    client.heartbeat("c1", "G", "New")
    assert scrape(server).rows("rocketmq_consumer_lag_messages", consumer_group="G") == {}


def test_every_row_has_the_labels_of_its_family(server: TestServer, client: Client) -> None:
    create_topic(client, "T")
    client.send("T")
    client.heartbeat("c1", "G", "T")
    client.pull("T", 0, 0, group="G")
    page = scrape(server)
    others = (*process.FAMILIES, *exposition.FAMILIES, *rpc.FAMILIES)
    known = {f.stem: f for f in (*FAMILIES, *others)}
    assert page.families.keys() <= known.keys()
    for name, family in page.families.items():
        assert family.type == known[name].kind.value
        assert family.documentation == known[name].doc
        for sample in family.samples:
            own = {k: v for k, v in sample.labels.items() if k != "le"}
            assert {**NODE, "zone": "a"}.items() <= own.items()
            assert own.keys() == {*NODE, "zone", *known[name].labels}, sample


def test_the_plain_text_has_the_same_rows(server: TestServer) -> None:
    status, text = get(server.broker.metrics_address, accept="*/*")
    assert status == 200
    assert "# TYPE rocketmq_messages_in_total counter" in text or "messages_in" not in text
    assert 'rocketmq_broker_permission{cluster="DefaultCluster"' in text
    assert "# EOF" not in text


def test_clients(server: TestServer, client: Client) -> None:
    create_topic(client, "T")
    client.heartbeat("c1", "G", "T")
    with Client(server.broker_address) as producer:
        data = {"clientID": "p", "producerDataSet": [{"groupName": "P"}], "consumerDataSet": []}
        producer.call(34, json.dumps(data).encode())
        page = scrape(server)
        assert page.one("rocketmq_producer_connections", protocol_type="remoting") == 1
        assert page.one("pyrmq_connections") >= 2
    consumers = page.one(
        "rocketmq_consumer_connections", consumer_group="G", consume_mode="push", is_system="false"
    )
    assert consumers == 1
    assert page.one("rocketmq_topic_number") >= 1
    assert page.one("rocketmq_consumer_group_number") >= 1


def test_dead_letters(server: TestServer, client: Client) -> None:
    create_topic(client, "T")
    client.send("T")
    (record,) = client.pull("T", 0, 0, group="G").records
    answer = client.call(
        CONSUMER_SEND_MSG_BACK,
        group="G",
        offset=record.physical_offset,
        delayLevel=-1,
        originTopic="T",
    )
    assert answer.code == 0, answer.remark
    pair = {"topic": "T", "consumer_group": "G", "is_system": "false"}
    assert scrape(server).one("rocketmq_send_to_dlq_messages_total", **pair) == 1


def test_the_store(server: TestServer, client: Client) -> None:
    create_topic(client, "T")
    for _ in range(5):
        client.send("T", b"x" * 1000)
    page = scrape(server)
    end = page.one("pyrmq_store_log_end_offset")
    assert end > 5000
    assert page.one("pyrmq_store_confirmed_offset") == end
    assert page.one("rocketmq_storage_size", storage_medium="disk") >= end
    assert 0 <= page.one("rocketmq_storage_flush_behind_bytes") <= end
    assert page.one("pyrmq_store_failed") == 0
    assert page.one("pyrmq_broker_refuses_messages") == 0
    assert all(0 <= part <= 1 for part in page.rows("pyrmq_disk_used_ratio").values())
    server.clock.advance(3600)
    assert scrape(server).one("rocketmq_storage_message_reserve_time") >= 3_600_000


def test_times_of_the_engine(server: TestServer, client: Client) -> None:
    create_topic(client, "T")
    for _ in range(5):
        client.send("T", b"x" * 2000)
    client.pull("T", 0, 0, group="G")
    page = scrape(server)
    send = {"request_code": "send_message_v2", "response_code": "success", "result": "success"}
    name = "rocketmq_rpc_latency"
    assert page.one(f"{name}_count", **send, is_long_polling="false") == 5
    assert page.one(f"{name}_count", request_code="pull_message", response_code="success") == 1
    assert 0 < page.one(f"{name}_sum", **send) < 60_000
    assert page.one(f"{name}_bucket", **send, le="+Inf") == 5
    sent = {"topic": "T", "message_type": "normal", "is_system": "false"}
    assert page.one("rocketmq_message_size_bucket", **sent, le="1024.0") == 0
    assert page.one("rocketmq_message_size_bucket", **sent, le="4096.0") == 5
    assert page.one("rocketmq_message_size_sum", **sent) > 10_000
    assert page.one("pyrmq_store_put_seconds_count") >= 1
    assert page.one("pyrmq_store_send_seconds_count") == 5
    assert page.one("pyrmq_store_confirm_lag_bytes") == 0
    assert page.one("pyrmq_store_recovery_seconds") > 0


def test_the_role(server: TestServer) -> None:
    page = scrape(server)
    assert page.one("pyrmq_ha_role", role="async_master") == 1
    assert page.one("pyrmq_ha_slaves") == 0


def test_hostile_names_of_groups(server: TestServer, client: Client) -> None:
    """The table of offsets may have any names: those of a file are not checked."""
    create_topic(client, "T")
    client.send("T")
    hostile = ['"', "\\", "\n# EOF\n", '"} 1\nx{a="', "é" * 300]
    offsets = server.broker.parts.tables.offsets
    for number, group in enumerate(hostile):
        offsets.keep("T", group, 0, 0)
        rows = scrape(server).rows("rocketmq_consumer_lag_messages", topic="T")
        assert len(rows) == number + 1


def test_topics_and_groups_beyond_the_bound_share_rows() -> None:
    with pyrmq.testing.broker(**SERVED, metrics_max_series=2) as server:
        with Client(server.broker_address) as client:
            for number in range(5):
                create_topic(client, f"T{number}")
                client.send(f"T{number}")
                commit(client, "G", f"T{number}", 0)
        page = Scrape(server.broker.metrics_address)
    rows = page.rows("rocketmq_messages_in_total", node_id="broker-a")
    assert len(rows) == 3
    assert sum(rows.values()) == 5
    assert page.one("rocketmq_messages_in_total", topic=OTHERS) == 3
    sizes = page.rows("rocketmq_message_size_count")
    assert len(sizes) == 3
    assert sum(sizes.values()) == 5
    assert page.one("rocketmq_message_size_count", topic=OTHERS) == 3
    assert page.one("pyrmq_metrics_folded_topics") == 3
    lags = page.rows("rocketmq_consumer_lag_messages")
    assert len(lags) == 3
    assert sum(lags.values()) == 5
    assert page.one("rocketmq_consumer_lag_messages", consumer_group=OTHERS) == 3
    assert page.one("pyrmq_metrics_folded_groups") == 3


def test_transactions(server: TestServer, client: Client) -> None:
    create_topic(client, "T")
    for outcome in (COMMIT, ROLLBACK, None):
        half = send_half(client, "T")
        if outcome is not None:
            end(client, half, outcome)

    def settled() -> Scrape | None:
        page = scrape(server)
        ends = "rocketmq_commit_messages_total", "rocketmq_rollback_messages_total"
        done = sum(sum(page.rows(name).values()) for name in ends)
        return page if done == 2 else None

    page = eventually(settled, "both are settled")
    assert page is not None
    assert page.one("rocketmq_commit_messages_total", topic="T") == 1
    assert page.one("rocketmq_rollback_messages_total", topic="T") == 1
    assert page.one("rocketmq_half_messages", topic="T") == 1
    assert page.one("pyrmq_transaction_halves_total") == 3


def test_health_is_at_the_same_port(server: TestServer) -> None:
    for path in ("/healthz", "/readyz"):
        status, text = get(server.broker.metrics_address, path)
        assert (status, json.loads(text)["status"]) == (200, "ok")


def test_nothing_is_served_unless_asked() -> None:
    with pyrmq.testing.broker() as server:
        assert server.broker.metrics_address is None
