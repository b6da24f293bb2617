"""Checks of the cluster: name servers that answer and agree, and who has this broker's name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyrmq.broker.config.drain_keys import NO_DRAIN
from pyrmq.doctor.facts import Facts, NameServer
from pyrmq.doctor.finding import Finding, error, note, ok, warning

MOST_NAMED = 8
OPEN = "6"
"""brokerPermission of a broker that is read and written."""


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def answering(facts: Facts) -> Iterator[Finding]:
    """Each name server of the configuration answers."""
    servers = facts.cluster.name_servers
    if facts.server.is_broker and not facts.server.name_servers:
        yield warning(
            "no name server is given",
            "clients do not find the broker",
            "namesrvAddr=HOST:PORT;HOST:PORT in broker.conf, or -n",
        )
    failed = [one for one in servers if one.problem]
    for one in failed:
        make = error if len(failed) == len(servers) else warning
        yield make(
            f"name server {one.address} does not answer: {one.problem}",
            "the broker cannot register there, and clients that ask it find nothing",
            f"start it, open its port in the firewall, or take {one.address} from namesrvAddr",
        )
    for one in servers:
        if not one.problem:
            yield ok(f"name server {one.address} knows {len(one.brokers)} brokers")
    if len(servers) == 1 and facts.server.is_broker:
        yield note(
            "there is one name server",
            "while it is away, new clients find no broker",
            "run a second one on another machine, and name both in namesrvAddr",
        )


def agreeing(facts: Facts) -> Iterator[Finding]:
    """Name servers have the same brokers, topics, routes and order configurations."""
    there = [one for one in facts.cluster.name_servers if not one.problem]
    if len(there) < 2:
        return
    found = [*_brokers(there), *_topics(there), *_routes(there), *_orders(there)]
    yield from found
    if not found:
        yield ok(f"{len(there)} name servers have the same brokers, topics and routes")


def _brokers(there: Sequence[NameServer]) -> Iterator[Finding]:
    every = frozenset().union(*(one.brokers for one in there))
    for one in there:
        if lacks := sorted(every - one.brokers):
            names = [f"{name} id {number} at {address}" for _, name, number, address in lacks]
            yield warning(
                f"name server {one.address} does not know {_named(names)}",
                "clients that ask it do not find these brokers",
                f"put {one.address} into namesrvAddr of these brokers, or mend the network between",
            )


def _topics(there: Sequence[NameServer]) -> Iterator[Finding]:
    every = frozenset().union(*(one.topics for one in there))
    for one in there:
        if lacks := sorted(every - one.topics):
            yield warning(
                f"name server {one.address} does not know {len(lacks)} topics: {_named(lacks)}",
                "clients that ask it cannot send to them",
                "wait for the next registration (30 s), then look again; see the brokers' logs",
            )


def _routes(there: Sequence[NameServer]) -> Iterator[Finding]:
    shared = frozenset.intersection(*(frozenset(one.routes) for one in there))
    others = sorted(t for t in shared if len({one.routes[t] for one in there}) > 1)
    if others:
        yield warning(
            f"name servers have other routes for {len(others)} topics: {_named(others)}",
            "clients see other queues or permissions, depending on which one they ask",
            f"pyrmq admin topic route {others[0]} -n ADDRESS, at each; look again after 30 s",
        )


def _orders(there: Sequence[NameServer]) -> Iterator[Finding]:
    known = [(one.address, one.orders) for one in there if one.orders is not None]
    topics = sorted({topic for _, orders in known for topic in orders})
    others = [t for t in topics if len({orders.get(t) for _, orders in known}) > 1]
    if others:
        yield warning(
            f"name servers have other order configurations of {_named(others)}",
            "name servers do not exchange them: producers may use other queues, and lose the order",
            f"pyrmq admin topic order put {others[0]} VALUE -n ALL;OF;THEM",
        )


def own_name(facts: Facts) -> Iterator[Finding]:
    """The broker's name, id and cluster beside what name servers know."""
    values = facts.server.values
    if not facts.server.is_broker:
        return
    name, cluster = values.get("brokerName", ""), values.get("brokerClusterName", "")
    number = values.get("brokerId", "0")
    known = frozenset().union(*(one.brokers for one in facts.cluster.name_servers))
    others = sorted({c for c, n, _, _ in known if n == name and c != cluster})
    if others:
        yield error(
            f"broker {name} is known in cluster {others[0]}, and is configured for {cluster}",
            "name servers refuse a broker that changes its cluster while others have its name",
            "another brokerName, or the right brokerClusterName",
        )
    same = {a for c, n, i, a in known if n == name and c == cluster and str(i) == number}
    addresses = _own(facts)
    foreign = sorted(a for a in same if addresses and a not in addresses)
    if foreign:
        yield warning(
            f"name servers have {name} id {number} at {foreign[0]}, which is not this machine's",
            "two brokers of one name and id take each other's place in the routes",
            "stop the other one, or set another brokerName; nothing if this one has moved, or is "
            "behind NAT",
        )
    elif same:
        yield ok(f"{name} id {number} is registered at {sorted(same)[0]}")
    if facts.machine.locked and facts.cluster.name_servers and not others:
        yield from _unregistered(facts, name, number)


def open_to_clients(facts: Facts) -> Iterator[Finding]:
    """The broker takes messages and gives them, by its configuration. A drain holds over restarts,
    and is forgotten easily."""
    values = facts.server.values
    if not facts.server.is_broker:
        return
    drain, permission = values.get("brokerDrain", NO_DRAIN), values.get("brokerPermission", OPEN)
    if drain != NO_DRAIN:
        yield warning(
            f"the broker is drained (brokerDrain={drain})",
            "clients are kept away from it, also after a restart",
            "nothing if that is meant; else: pyrmq admin broker bring-back "
            f"{values.get('brokerName', 'BROKER')}",
        )
    if permission != OPEN:
        yield warning(
            f"the broker does not take all requests (brokerPermission={permission})",
            "4 is to read and 2 to write: sends or pulls are refused, also after a restart",
            f"nothing if that is meant; else brokerPermission={OPEN}",
        )
    if drain == NO_DRAIN and permission == OPEN:
        yield ok("the broker takes messages and gives them")


def _unregistered(facts: Facts, name: str, number: str) -> Iterator[Finding]:
    for one in facts.cluster.name_servers:
        known = {(n, str(i)) for _, n, i, _ in one.brokers}
        if not one.problem and (name, number) not in known:
            yield error(
                f"the broker runs, and name server {one.address} does not know it",
                "clients that ask this name server do not find it",
                "look for `not registered with name server` in the broker's log",
            )


def _own(facts: Facts) -> set[str]:
    """The addresses under which this broker may be registered."""
    port, said = facts.server.values.get("listenPort", ""), facts.server.values.get("brokerIP1", "")
    hosts = {*facts.machine.addresses, *([said] if said else [])}
    hosts |= {a for one in facts.cluster.lookups if one.host == said for a in one.addresses}
    return {f"[{h}]:{port}" if ":" in h else f"{h}:{port}" for h in hosts}


def reachable(facts: Facts) -> Iterator[Finding]:
    """The brokers that name servers know answer from here."""
    for peer in facts.cluster.peers:
        if peer.problem:
            yield warning(
                f"{peer.name} id {peer.number} at {peer.address} does not answer: {peer.problem}",
                "it is dead, or its brokerIP1 is wrong, or a firewall is between",
                "pyrmq admin cluster health; look at brokerIP1 of that broker",
            )
