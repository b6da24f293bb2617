"""Which requests adminAddressAllowList keeps from strangers: every one that the servers take is in
a table here, so that a new one comes with a decision."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest

import pyrmq.testing
from pyrmq.model.codes import RequestCode as Code
from pyrmq.model.request_kinds import ADMIN_REQUESTS
from pyrmq.namesrv import NameServer
from pyrmq.namesrv.config import NamesrvConfig
from pyrmq.server import Running
from tests.support.client import Client
from tests.support.in_thread import InThread
from tests.support.operators import create_topic
from tests.system.hostile.requests import broker_rows, namesrv_rows
from tests.system.hostile.requests.rows import Row
from tests.system.hostile.requests.test_namesrv_requests import serving

OPERATOR, STRANGER = "127.0.0.2", "127.0.0.3"
NO_PERMISSION = 16
NOT_TAKEN = "is not taken from"

BROKER_CHANGES = {
    Code.UPDATE_AND_CREATE_TOPIC, Code.UPDATE_AND_CREATE_TOPIC_LIST, Code.DELETE_TOPIC_IN_BROKER,
    Code.UPDATE_BROKER_CONFIG, Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, Code.DELETE_SUBSCRIPTIONGROUP,
    Code.INVOKE_BROKER_TO_RESET_OFFSET, Code.CLONE_GROUP_OFFSET, Code.CONSUME_MESSAGE_DIRECTLY,
    Code.CLEAN_EXPIRED_CONSUMEQUEUE, Code.CLEAN_UNUSED_TOPIC, Code.DELETE_EXPIRED_COMMITLOG,
    Code.RESUME_CHECK_HALF_MESSAGE, Code.SET_MESSAGE_REQUEST_MODE,
    3001, 3002, 3003, 3006, 3007, 3008,
}  # fmt: skip
"""Of the broker: what administrates. From elsewhere than the list has: NO_PERMISSION."""
BROKER_OPEN = {
    # the work of producers and consumers, and of slaves
    Code.SEND_MESSAGE, Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE, Code.SEND_REPLY_MESSAGE,
    Code.SEND_REPLY_MESSAGE_V2, Code.CONSUMER_SEND_MSG_BACK, Code.PULL_MESSAGE,
    Code.LITE_PULL_MESSAGE, Code.HEART_BEAT, Code.UNREGISTER_CLIENT, Code.CHECK_CLIENT_CONFIG,
    Code.GET_CONSUMER_LIST_BY_GROUP, Code.QUERY_CONSUMER_OFFSET, Code.UPDATE_CONSUMER_OFFSET,
    Code.LOCK_BATCH_MQ, Code.UNLOCK_BATCH_MQ, Code.END_TRANSACTION,
    # looks
    Code.GET_MAX_OFFSET, Code.GET_MIN_OFFSET, Code.SEARCH_OFFSET_BY_TIMESTAMP,
    Code.GET_EARLIEST_MSG_STORETIME, Code.QUERY_MESSAGE, Code.VIEW_MESSAGE_BY_ID,
    Code.GET_TOPIC_STATS_INFO, Code.GET_CONSUME_STATS, Code.GET_BROKER_CONSUME_STATS,
    Code.GET_CONSUMER_CONNECTION_LIST, Code.GET_PRODUCER_CONNECTION_LIST,
    Code.GET_ALL_PRODUCER_INFO, Code.GET_TOPIC_CONFIG, Code.GET_SUBSCRIPTIONGROUP_CONFIG,
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, Code.GET_ALL_TOPIC_CONFIG, Code.GET_ALL_CONSUMER_OFFSET,
    Code.GET_ALL_DELAY_OFFSET, Code.GET_ALL_MESSAGE_REQUEST_MODE,
    Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, Code.GET_BROKER_CONFIG, Code.GET_BROKER_RUNTIME_INFO,
    Code.GET_BROKER_HA_STATUS, Code.GET_BROKER_EPOCH_CACHE, Code.VIEW_BROKER_STATS_DATA,
    Code.QUERY_TOPIC_CONSUME_BY_WHO, Code.QUERY_TOPICS_BY_CONSUMER,
    Code.QUERY_SUBSCRIPTION_BY_CONSUMER, Code.QUERY_CONSUME_TIME_SPAN, Code.QUERY_CORRECTION_OFFSET,
    Code.QUERY_CONSUME_QUEUE, Code.GET_CONSUMER_RUNNING_INFO,
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
    3004, 3005, 3009, 3010,
}  # fmt: skip
NAMESRV_CHANGES = {
    Code.PUT_KV_CONFIG, Code.DELETE_KV_CONFIG, Code.DELETE_TOPIC_IN_NAMESRV,
    Code.WIPE_WRITE_PERM_OF_BROKER, Code.ADD_WRITE_PERM_OF_BROKER, Code.UPDATE_NAMESRV_CONFIG,
}  # fmt: skip
NAMESRV_OPEN = {
    # the work of brokers
    Code.REGISTER_BROKER, Code.UNREGISTER_BROKER, Code.BROKER_HEARTBEAT, Code.QUERY_DATA_VERSION,
    Code.GET_BROKER_MEMBER_GROUP, Code.REGISTER_TOPIC_IN_NAMESRV,
    # looks
    Code.GET_KV_CONFIG, Code.GET_KVLIST_BY_NAMESPACE, Code.GET_ROUTEINFO_BY_TOPIC,
    Code.GET_BROKER_CLUSTER_INFO, Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    Code.GET_TOPICS_BY_CLUSTER, Code.GET_SYSTEM_TOPIC_LIST_FROM_NS, Code.GET_UNIT_TOPIC_LIST,
    Code.GET_HAS_UNIT_SUB_TOPIC_LIST, Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
    Code.GET_NAMESRV_CONFIG,
}  # fmt: skip


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InThread[Running]]:
    store = tmp_path_factory.mktemp("access") / "store"
    settings = {"admin_address_allow_list": OPERATOR, "enable_property_filter": True}
    with InThread(functools.partial(pyrmq.testing.broker, store, **settings)) as server:
        with Client(server.look(lambda running: running.broker_address), source=OPERATOR) as client:
            for topic in (broker_rows.TOPIC, broker_rows.VICTIM):
                assert create_topic(client, topic, 4).code == 0
            for group in (broker_rows.GROUP, broker_rows.GROUP_VICTIM):
                assert client.call(200, b'{"groupName":"%b"}' % group.encode()).code == 0
            assert client.send(broker_rows.TOPIC).code == 0
        yield server


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InThread[NameServer]]:
    config = NamesrvConfig(
        listen_port=0,
        bind_address="127.0.0.1",
        kv_config_path=tmp_path_factory.mktemp("namesrv") / "kvConfig.json",
        admin_address_allow_list=OPERATOR,
    )
    with InThread(lambda: serving(config)) as server:
        yield server


def test_every_request_of_the_broker_is_decided(broker: InThread[Running]) -> None:
    assert not BROKER_CHANGES & BROKER_OPEN
    taken = broker.look(lambda running: set(running.broker.parts.processors))
    assert taken == BROKER_CHANGES | BROKER_OPEN
    assert taken & set(ADMIN_REQUESTS) == BROKER_CHANGES


def test_every_request_of_the_name_server_is_decided(namesrv: InThread[NameServer]) -> None:
    assert not NAMESRV_CHANGES & NAMESRV_OPEN
    taken = namesrv.look(lambda server: set(server.processors))
    assert taken == NAMESRV_CHANGES | NAMESRV_OPEN
    assert taken & set(ADMIN_REQUESTS) == NAMESRV_CHANGES


@pytest.mark.parametrize("code", sorted(BROKER_CHANGES | BROKER_OPEN), ids=int)
def test_broker(broker: InThread[Running], code: int) -> None:
    address = broker.look(lambda running: running.broker_address)
    _check(address, code, broker_rows.ROWS[code], changes=code in BROKER_CHANGES)


@pytest.mark.parametrize("code", sorted(NAMESRV_CHANGES | NAMESRV_OPEN), ids=int)
def test_name_server(namesrv: InThread[NameServer], code: int) -> None:
    address = namesrv.look(lambda server: server.address)
    _check(address, code, namesrv_rows.ROWS[code], changes=code in NAMESRV_CHANGES)


def _check(address: tuple[str, int], code: int, row: Row, *, changes: bool) -> None:
    """A valid request of a stranger, then of an operator."""
    with Client(address, source=STRANGER) as stranger:
        answer = stranger.request(row.request(code))
        if changes:
            assert answer.code == NO_PERMISSION, answer.remark
            assert NOT_TAKEN in (answer.remark or "")
            assert STRANGER in (answer.remark or "")
            assert not answer.body
        else:
            assert NOT_TAKEN not in (answer.remark or "")
    with Client(address, source=OPERATOR) as operator:
        answer = operator.request(row.request(code))
        assert NOT_TAKEN not in (answer.remark or "")
