"""What `pyrmq doctor` says of names, addresses and name servers, by injected answers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyrmq.doctor import cluster, names
from pyrmq.doctor.cluster_facts import ahead_of
from pyrmq.doctor.facts import (
    BROKER,
    NAME_SERVER,
    Cluster,
    Facts,
    Lookup,
    Machine,
    NameServer,
    Peer,
    Server,
)
from pyrmq.doctor.finding import Level
from pyrmq.doctor.table import Check

A = ("C", "broker-a", 0, "10.0.0.1:10911")
B = ("C", "broker-b", 0, "10.0.0.2:10911")


def levels(check: Check, facts: Facts) -> list[str]:
    return [found.level.value for found in check(facts)]


def resolving(*lookups: Lookup) -> Facts:
    return Facts(Server(BROKER, {}), cluster=Cluster(lookups=lookups))


@pytest.mark.parametrize(
    ("lookup", "found"),
    [
        (Lookup("mq", ("namesrvAddr",), ("10.0.0.1",), 0.1), ["ok"]),
        (Lookup("mq", ("namesrvAddr",), ("10.0.0.1",), 5.0), ["warning"]),
        (Lookup("mq", ("namesrvAddr",), problem="it does not"), ["error"]),
        (Lookup("mq", ("brokerIP1",), ("10.0.0.1", "fd00::1")), ["warning", "ok"]),
        (Lookup("mq", ("namesrvAddr",), ("10.0.0.1", "fd00::1")), ["ok"]),
        (Lookup("mq", ("namesrvAddr",), ("127.0.1.1", "10.0.0.1")), ["warning", "ok"]),
    ],
    ids=["fine", "slow", "unknown", "both-families", "both-for-namesrv", "loopback-too"],
)
def test_names(lookup: Lookup, found: list[str]) -> None:
    assert levels(names.resolved, resolving(lookup)) == found


def announcing(
    ip: str = "",
    bind: str = "0.0.0.0",
    namesrv: tuple[str, ...] = ("10.0.0.9:9876",),
    route: str = "10.0.0.1",
    container: str = "",
    lookups: tuple[Lookup, ...] = (),
) -> Facts:
    values = {"brokerIP1": ip, "bindAddress": bind, "listenPort": "10911"}
    machine = Machine(
        addresses=frozenset({"10.0.0.1", "127.0.0.1"}), route_address=route, container=container
    )
    server = Server(BROKER, values, name_servers=namesrv)
    return Facts(server, machine, Cluster(lookups=lookups))


@pytest.mark.parametrize(
    ("facts", "level", "said"),
    [
        (announcing(), Level.OK, "10.0.0.1"),
        (announcing("10.0.0.1"), Level.OK, "10.0.0.1"),
        (announcing("127.0.0.1"), Level.ERROR, "loopback"),
        (announcing("127.0.0.1", namesrv=("127.0.0.1:9876",)), Level.WARNING, "loopback"),
        (announcing("", "127.0.0.1", ("127.0.0.1:9876",)), Level.OK, "only this machine"),
        (announcing(route="127.0.0.1"), Level.ERROR, "loopback"),
        (announcing("169.254.3.4"), Level.ERROR, "link-local"),
        (announcing("203.0.113.7"), Level.NOTE, "no address of this machine"),
        (announcing("203.0.113.7", "10.0.0.1"), Level.WARNING, "listens on 10.0.0.1 only"),
        (announcing(container="Docker"), Level.NOTE, "container"),
        (
            announcing("mq", lookups=(Lookup("mq", ("brokerIP1",), ("127.0.1.1",)),)),
            Level.ERROR,
            "loopback",
        ),
    ],
)
def test_the_announced_address(facts: Facts, level: Level, said: str) -> None:
    (found,) = names.announced(facts)
    assert (found.level, said in found.what) == (level, True), found


def test_an_announced_address_that_nobody_knows() -> None:
    assert levels(names.announced, announcing("unknown-name")) == []
    assert levels(names.announced, Facts(Server(NAME_SERVER, {}))) == []


def asked(*servers: NameServer, machine: Machine | None = None, **values: str) -> Facts:
    server = Server(
        BROKER,
        {"brokerName": "broker-a", "brokerClusterName": "C", "brokerId": "0",
         "listenPort": "10911", **values},
        name_servers=tuple(one.address for one in servers),
    )  # fmt: skip
    own = machine or Machine(addresses=frozenset({"10.0.0.1"}))
    return Facts(server, own, Cluster(servers))


def knows(address: str, *brokers: tuple[str, str, int, str], **more: object) -> NameServer:
    return replace(NameServer(address, brokers=frozenset(brokers)), **more)  # type: ignore[arg-type]


def test_name_servers_that_answer() -> None:
    dead = NameServer("n2:9876", "Connection refused")
    assert levels(cluster.answering, asked(knows("n1:9876", A), dead)) == ["warning", "ok"]
    assert levels(cluster.answering, asked(dead, replace(dead, address="n3:1"))) == ["error"] * 2
    assert levels(cluster.answering, asked(knows("n1:9876"))) == ["ok", "note"]
    assert levels(cluster.answering, asked()) == ["warning"]
    assert levels(cluster.answering, Facts(Server(NAME_SERVER, {}))) == []


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ({}, {}, "have the same"),
        ({"brokers": frozenset({A, B})}, {"brokers": frozenset({A})}, "broker-b id 0"),
        ({"topics": frozenset({"t", "u"})}, {"topics": frozenset({"t"})}, "1 topics: u"),
        (
            {"routes": {"t": frozenset({("broker-a", 8, 8, 6)})}},
            {"routes": {"t": frozenset({("broker-a", 8, 8, 4)})}},
            "other routes for 1 topics: t",
        ),
        ({"orders": {"t": "broker-a:4"}}, {"orders": {}}, "order configurations of t"),
        ({"orders": {"t": "broker-a:4"}}, {"orders": None}, "have the same"),
    ],
    ids=["same", "broker", "topic", "route", "order", "order-unknown"],
)
def test_name_servers_that_differ(
    first: dict[str, object], second: dict[str, object], said: str
) -> None:
    facts = asked(knows("n1:9876", **first), knows("n2:9876", **second))
    (found,) = cluster.agreeing(facts)
    assert said in found.what
    assert found.level == (Level.OK if said == "have the same" else Level.WARNING)


def test_many_names_are_cut_off() -> None:
    topics = frozenset(f"t{n:03}" for n in range(1000))
    (found,) = cluster.agreeing(asked(knows("n1:1", topics=topics), knows("n2:1")))
    assert "1000 topics" in found.what
    assert "t007 and 992 more" in found.what
    assert "t008" not in found.what


def test_a_name_server_that_is_away_is_not_compared() -> None:
    away = NameServer("n2:9876", "refused")
    assert levels(cluster.agreeing, asked(knows("n1:9876", A), away)) == []


def test_the_brokers_own_name() -> None:
    assert levels(cluster.own_name, asked(knows("n1:1", A))) == ["ok"]
    assert levels(cluster.own_name, asked(knows("n1:1", B))) == []
    moved = ("C", "broker-a", 0, "10.0.0.77:10911")
    assert levels(cluster.own_name, asked(knows("n1:1", moved))) == ["warning"]
    assert levels(cluster.own_name, asked(knows("n1:1", moved), brokerIP1="10.0.0.77")) == ["ok"]
    other = ("D", "broker-a", 0, "10.0.0.1:10911")
    assert levels(cluster.own_name, asked(knows("n1:1", other))) == ["error"]
    assert levels(cluster.own_name, Facts(Server(NAME_SERVER, {}))) == []


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, ["the broker takes messages and gives them"]),
        ({"brokerDrain": "NONE", "brokerPermission": "6"}, ["the broker takes messages"]),
        ({"brokerDrain": "WRITE"}, ["is drained (brokerDrain=WRITE)"]),
        ({"brokerDrain": "ALL", "brokerPermission": "4"}, ["is drained", "(brokerPermission=4)"]),
    ],
)
def test_a_broker_that_is_kept_drained(values: dict[str, str], said: list[str]) -> None:
    """A drain is forgotten easily, and holds over restarts."""
    found = list(cluster.open_to_clients(asked(**values)))
    assert len(found) == len(said)
    for finding, text in zip(found, said, strict=True):
        assert text in finding.what
        wanted = Level.OK if "takes messages" in text else Level.WARNING
        assert finding.level is wanted
    assert levels(cluster.open_to_clients, Facts(Server(NAME_SERVER, {}))) == []


def test_a_broker_that_runs_is_registered_everywhere() -> None:
    machine = Machine(addresses=frozenset({"10.0.0.1"}), locked=True)
    both = asked(knows("n1:1", A), knows("n2:1", B), machine=machine)
    assert levels(cluster.own_name, both) == ["ok", "error"]
    stopped = replace(both, machine=replace(machine, locked=False))
    assert levels(cluster.own_name, stopped) == ["ok"]


def test_brokers_that_do_not_answer() -> None:
    peers = (Peer("a", 0, "h:1"), Peer("b", 1, "h:2", problem="no answer in 3 s"))
    facts = Facts(Server(BROKER, {}), cluster=Cluster(peers=peers))
    assert levels(cluster.reachable, facts) == ["warning"]


@pytest.mark.parametrize(
    ("boot", "ran", "ahead"),
    [
        ("1000000", "[ 0 days, 1 hours, 1 minutes, 1 seconds ]", 61.5),
        ("1000000", "0 days, 1 hours, 0 minutes, 0 seconds", 0.5),
        ("", "[ 0 days, 0 hours, 0 minutes, 1 seconds ]", None),
        ("x" * 9, "[ 0 days, 0 hours, 0 minutes, 1 seconds ]", None),
        ("9" * 99, "[ 0 days, 0 hours, 0 minutes, 1 seconds ]", None),
        ("1000000", "long", None),
    ],
)
def test_the_clock_of_a_broker(boot: str, ran: str, ahead: float | None) -> None:
    assert ahead_of({"bootTimestamp": boot, "runtime": ran}, 4600.0) == ahead
