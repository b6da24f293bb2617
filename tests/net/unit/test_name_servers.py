"""Asking name servers, without any: what is asked when, and what comes of it."""

from __future__ import annotations

from typing import Any, TypeVar

import pytest

from pyrmq.engine import Command, Listener, Session
from pyrmq.errors import (
    ClientError,
    ConnectError,
    NoPermissionError,
    ProtocolError,
    PyrmqError,
    RequestTimeoutError,
    TopicNotExistError,
)
from pyrmq.model.names import AUTO_CREATE_TOPIC
from pyrmq.model.route import BrokerData, QueueData, TopicRoute
from pyrmq.net import fastjson
from pyrmq.net.address import Address, format_address
from pyrmq.net.backoff import RetryPolicy
from pyrmq.net.client.name_servers import NameServers, RouteTable
from pyrmq.net.client.procedure import (
    Invoke,
    Pause,
    Procedure,
    Result,
)
from tests.support import wire

T = TypeVar("T")
A, B, C = [(name, 9876) for name in "abc"]
DOWN = ConnectError("cannot connect")
SILENT = RequestTimeoutError("did not answer")
ROUTE = TopicRoute([QueueData("b", 2, 2, 6)], [BrokerData("C", "b", {0: "h:1"})])


def answer(code: int, body: bytes = b"", remark: str | None = None) -> Command:
    session = Session(Listener(), bytes(4), 0)
    command = wire.Command(code, {}, body, flag=1, remark=remark)
    session.feed_bytes(wire.encode(command), 0)
    found = session.next_command()
    assert found is not None
    return found


OK = answer(0)
ABSENT = answer(17, remark="no route")
BUSY = answer(2, remark="busy")
REFUSED = answer(16, remark="wrong signature")


def run(procedure: Procedure[T], *results: Result) -> tuple[list[Any], T | PyrmqError]:
    """What a procedure did with these results: name servers and pauses, and how it ended."""
    did: list[Any] = []
    left = list(results)
    result: Result = None
    try:
        while True:
            step = procedure.send(result)
            if isinstance(step, Pause):
                did.append(step.seconds)
                result = None
            else:
                assert isinstance(step, Invoke)
                did.append(step.address)
                result = left.pop(0)
    except StopIteration as end:
        assert not left
        value: T = end.value
        return did, value
    except PyrmqError as error:
        assert not left
        return did, error


@pytest.mark.parametrize(
    ("results", "asked", "end"),
    [
        ([OK], [A], OK),
        ([DOWN, OK], [A, B], OK),
        ([DOWN, SILENT, OK], [A, B, C], OK),
        ([BUSY, OK], [A, B], OK),
        ([DOWN, DOWN, SILENT], [A, B, C], ConnectError),
        ([DOWN, DOWN, BUSY], [A, B, C], ConnectError),
        ([ABSENT, OK], [A, B], OK),
        ([ABSENT, DOWN, OK], [A, B, C], OK),
        ([ABSENT, ABSENT, ABSENT], [A, B, C], TopicNotExistError),
        ([DOWN, ABSENT, SILENT], [A, B, C], TopicNotExistError),
    ],
)
def test_one_round(results: list[Result], asked: list[Address], end: Any) -> None:
    servers = NameServers([A, B, C], timeout=3)
    did, came = run(servers.request(1, {}), *results)
    assert did == asked
    assert came is end or type(came) is end


@pytest.mark.parametrize(
    ("results", "did", "end"),
    [
        ([ABSENT, OK], [A, B], OK),
        ([ABSENT, ABSENT], [A, B], TopicNotExistError),
        ([DOWN, ABSENT], [A, B], TopicNotExistError),
        ([ABSENT, DOWN], [A, B], TopicNotExistError),
        ([DOWN, DOWN, OK], [A, B, 0.1, A], OK),
        ([DOWN, DOWN, DOWN, ABSENT], [A, B, 0.1, A, B], TopicNotExistError),
        ([DOWN] * 6, [A, B, 0.1, A, B, 0.2, A, B], ConnectError),
        ([REFUSED, OK], [A, B], OK),
        ([REFUSED, REFUSED], [A, B], NoPermissionError),
        ([REFUSED, DOWN, REFUSED, OK], [A, B, 0.1, A, B], OK),
    ],
)
def test_several_rounds_and_all_have_to_say_that_a_topic_is_absent(
    results: list[Result], did: list[Any], end: Any
) -> None:
    servers = NameServers([A, B], timeout=3, policy=RetryPolicy(2, jitter=0))
    done, came = run(servers.request(1, {}), *results)
    assert done == did
    assert came is end or type(came) is end


def test_the_one_that_answered_is_asked_first() -> None:
    servers = NameServers([A, B, C], timeout=3)
    assert run(servers.request(1, {}), DOWN, OK)[0] == [A, B]
    assert run(servers.request(1, {}), OK)[0] == [B]
    assert run(servers.request(1, {}), ABSENT, DOWN, ABSENT)[0] == [B, C, A]
    assert run(servers.request(1, {}), DOWN, OK)[0] == [B, C]
    assert run(servers.request(1, {}), DOWN, DOWN, DOWN)[0] == [C, A, B]
    assert run(servers.request(1, {}), OK)[0] == [C]


def test_procedures_side_by_side_leave_no_server_out() -> None:
    """Each tries all of the list, whatever the others find out meanwhile."""
    servers = NameServers([A, B, C], timeout=3)
    one, other = servers.request(1, {}), servers.request(1, {})
    steps = [one.send(None), other.send(None)]
    for _ in range(2):
        steps += [one.send(DOWN), other.send(DOWN)]
    asked = [step.address for step in steps if isinstance(step, Invoke)]
    assert asked == [A, A, B, B, C, C]


def test_the_error_names_the_list_and_all_failures() -> None:
    servers = NameServers([A, B], timeout=3, label=" of nameServer=a")
    _, error = run(servers.request(1, {}), SILENT, DOWN)
    a, b = format_address(A), format_address(B)
    assert str(error) == (
        f"no name server of nameServer=a answered: {a}: did not answer; {b}: {DOWN}"
    )


def test_a_refusal_names_the_server_that_refuses() -> None:
    """Asking again would count as another failed login."""
    servers = NameServers([A], timeout=3, policy=RetryPolicy(5, jitter=0))
    did, error = run(servers.request(1, {}), REFUSED)
    assert did == [A]
    assert isinstance(error, NoPermissionError)
    assert (error.server, str(error)) == (
        format_address(A), f"CODE 16: name server {format_address(A)}: wrong signature"
    )  # fmt: skip


def test_the_error_for_a_topic_says_who_does_not_know_it() -> None:
    _, error = run(NameServers([A], timeout=3).request(1, {}), ABSENT)
    assert isinstance(error, TopicNotExistError)
    assert error.args[0] == "no route"
    _, error = run(NameServers([A, B, C], timeout=3).request(1, {}), ABSENT, SILENT, ABSENT)
    assert isinstance(error, TopicNotExistError)
    assert (error.code, error.answered) == (17, True)
    assert error.args[0] == (
        "no route [name servers that say so: a:9876, c:9876; others: b:9876: did not answer]"
    )


def test_others_have_little_time_once_one_has_answered() -> None:
    procedure = NameServers([A, B, C], timeout=3).request(1, {})
    steps = [procedure.send(result) for result in (None, DOWN, ABSENT)]
    assert [step.timeout for step in steps if isinstance(step, Invoke)] == [3, 3, 1]


def route_answer() -> Command:
    return answer(0, fastjson.dumps(ROUTE.to_json()))


def test_a_route_is_asked_for_once() -> None:
    table = RouteTable(NameServers([A], timeout=3))
    assert run(table.route("T"), route_answer()) == ([A], ROUTE)
    assert run(table.route("T")) == ([], ROUTE)
    assert run(table.route("T", fresh=True), route_answer()) == ([A], ROUTE)
    assert type(run(table.route("T", fresh=True), ABSENT)[1]) is TopicNotExistError
    assert run(table.route("T")) == ([], ROUTE)


def test_a_route_that_somebody_else_renewed_is_not_asked_for_again() -> None:
    table = RouteTable(NameServers([A], timeout=3))
    _, stale = run(table.route("T"), route_answer())
    assert isinstance(stale, TopicRoute)
    _, newer = run(table.renew("T", stale), route_answer())
    assert newer is not stale
    did, found = run(table.renew("T", stale))
    assert did == []
    assert found is newer


def test_a_topic_that_is_new_goes_where_topics_are_made() -> None:
    table = RouteTable(NameServers([A], timeout=3))
    template = TopicRoute(
        [QueueData("b", 8, 8, 7, 1), QueueData("c", 2, 2, 6)], [BrokerData("C", "b", {0: "h:1"})]
    )
    body = fastjson.dumps(template.to_json())
    did, route = run(table.publish_route("T"), ABSENT, answer(0, body))
    assert did == [A, A]
    assert isinstance(route, TopicRoute)
    assert route.queues == [QueueData("b", 4, 4, 7, 1), QueueData("c", 2, 2, 6)]
    assert route.brokers == template.brokers
    assert table.known == {}
    step = table.servers.route(AUTO_CREATE_TOPIC).send(None)
    assert isinstance(step, Invoke)
    assert (step.code, step.ext, step.timeout) == (105, {"topic": "TBW102"}, 3)


def test_no_broker_makes_topics() -> None:
    table = RouteTable(NameServers([A], timeout=3))
    _, error = run(table.publish_route("T"), ABSENT, ABSENT)
    assert isinstance(error, TopicNotExistError)
    assert "topic T does not exist and no broker creates topics on demand" in str(error)


def test_the_cluster_and_its_topics() -> None:
    servers = NameServers([A], timeout=3)
    body = fastjson.dumps(
        {
            "clusterAddrTable": {"C": ["a", "b"]},
            "brokerAddrTable": {
                "a": BrokerData("C", "a", {0: "h:1", 1: "h:2"}).to_json(),
                "b": BrokerData("D", "b", {0: "h:3"}).to_json(),
                "r": BrokerData("C", "r", {1: "h:4"}).to_json(),
                "x": {},
            },
        }
    )
    _, info = run(servers.cluster_info(), answer(0, body))
    assert not isinstance(info, PyrmqError)
    assert (info.clusters, set(info.brokers)) == ({"C"}, {"a", "b", "r", "x"})
    assert (info.masters(), info.masters("C")) == (["h:1", "h:3"], ["h:1"])
    assert run(servers.topics(), answer(0, b'{"topicList":["T","U"]}'))[1] == {"T", "U"}
    assert run(servers.topics(), answer(0, b'{"topicList":7}'))[1] == set()


def test_a_name_server_without_brokers_is_not_believed_while_another_has_some() -> None:
    servers = NameServers([A, B], timeout=3)
    empty = answer(0, b'{"clusterAddrTable":{},"brokerAddrTable":{}}')
    full = answer(0, b'{"clusterAddrTable":{"C":["a"]},"brokerAddrTable":{"a":{}}}')
    did, info = run(servers.cluster_info(), empty, full)
    assert did == [A, B]
    assert not isinstance(info, PyrmqError)
    assert set(info.brokers) == {"a"}
    assert run(servers.cluster_info(), full)[0] == [B], "it is asked first from now on"
    did, info = run(servers.cluster_info(), empty, DOWN)
    assert did == [B, A]
    assert not isinstance(info, PyrmqError)
    assert info.brokers == {}
    nothing, topics = answer(0, b'{"topicList":[]}'), answer(0, b'{"topicList":["T"]}')
    assert run(servers.topics(), nothing, topics) == ([B, A], {"T"})
    assert run(servers.topics(), nothing, nothing) == ([A, B], set())


@pytest.mark.parametrize("body", [b"", b"[", b"[]", b"7"])
def test_bodies_that_are_no_object(body: bytes) -> None:
    servers = NameServers([A], timeout=3)
    for procedure in (servers.cluster_info(), servers.topics(), servers.route("T")):
        assert type(run(procedure, answer(0, body))[1]) is ProtocolError


def test_tables_of_a_wrong_kind_are_empty() -> None:
    servers = NameServers([A], timeout=3)
    body = b'{"clusterAddrTable":7,"brokerAddrTable":[]}'
    _, info = run(servers.cluster_info(), answer(0, body))
    assert not isinstance(info, ClientError | PyrmqError)
    assert (info.clusters, info.brokers) == (set(), {})
