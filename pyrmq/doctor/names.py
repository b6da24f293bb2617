"""Checks of names and addresses: what resolves, and whether clients reach what they are told."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address

from pyrmq.doctor.facts import Facts
from pyrmq.doctor.finding import Finding, error, note, ok, warning
from pyrmq.net.address import is_loopback, parse_address

SLOW = 1.0
"""Seconds."""
_ANY = ("0.0.0.0", "::")


def resolved(facts: Facts) -> Iterator[Finding]:
    """The names of hosts in the configuration."""
    for lookup in facts.cluster.lookups:
        keys = ", ".join(lookup.keys)
        check = f"getent ahosts {lookup.host}"
        families = {":" in address for address in lookup.addresses}
        if lookup.problem:
            yield error(
                f"{lookup.host} ({keys}) does not resolve: {lookup.problem}",
                f"the {facts.server.kind} does not reach it, or does not start",
                f"{check}; mend the name in DNS or /etc/hosts, or give a numeric address",
            )
            continue
        if lookup.seconds > SLOW:
            yield warning(
                f"{lookup.host} ({keys}) took {lookup.seconds:.1f} s to resolve",
                "each new connection waits so long; a resolver of /etc/resolv.conf may be dead",
                f"time {check}; take the dead resolver from /etc/resolv.conf, or give a numeric "
                "address",
            )
        if families == {True, False} and any(k in ("brokerIP1", "brokerIP2") for k in lookup.keys):
            yield warning(
                f"{lookup.host} ({keys}) has IPv4 and IPv6 addresses: {_some(lookup.addresses)}",
                f"clients get the first one, {lookup.addresses[0]}, and some may not reach its "
                "family",
                f"give {keys} as a numeric address",
            )
        if len({is_loopback(a) for a in lookup.addresses}) == 2:
            yield warning(
                f"{lookup.host} ({keys}) resolves to this machine and to others: "
                f"{_some(lookup.addresses)}",
                "which one is taken may change with each connection",
                f"{check}; mend /etc/hosts",
            )
        if lookup.seconds <= SLOW:
            yield ok(f"{lookup.host} resolves to {_some(lookup.addresses)}")


def _some(addresses: tuple[str, ...]) -> str:
    more = f" and {len(addresses) - 4} more" if len(addresses) > 4 else ""
    return ", ".join(addresses[:4]) + more


def announced(facts: Facts) -> Iterator[Finding]:
    """The address that the broker registers: clients connect to it."""
    server, machine = facts.server, facts.machine
    if not server.is_broker:
        return
    said, bind = server.values.get("brokerIP1", ""), server.values.get("bindAddress", "")
    numeric = _numeric(facts, said)
    address = numeric or (bind if bind not in _ANY else machine.route_address)
    if not address or (said and not numeric):  # another check says that it does not resolve
        return
    key = "brokerIP1" if said else "bindAddress" if bind not in _ANY else "brokerIP1 (empty)"
    advice = "brokerIP1=ADDRESS in broker.conf: one of this machine's that clients reach"
    if is_loopback(address):
        remote = [a for a in server.name_servers if not is_loopback(parse_address(a)[0])]
        if remote or not is_loopback(bind):
            why = f"clients on other machines get {address}, and look for the broker on their own"
            make = error if remote else warning
            yield make(f"{key} gives clients {address}, which is loopback", why, advice)
        else:
            yield ok(f"clients get {address}: only this machine reaches it, as bindAddress says")
        return
    if ip_address(address).is_link_local:
        yield error(
            f"{key} gives clients {address}, which is link-local",
            "it is valid on one network segment only, and may change",
            advice,
        )
    elif bind not in _ANY and numeric and _other(bind, numeric):
        yield warning(
            f"clients get {address} (brokerIP1), and the broker listens on {bind} only",
            "unless something forwards the connections, clients do not reach it",
            "bindAddress=0.0.0.0, or the same address for both",
        )
    elif machine.container and not said:
        yield note(
            f"this is a container ({machine.container}), and clients get its address {address}",
            "clients outside of the container network do not reach it",
            "brokerIP1=ADDRESS of the host, with the port published under the same number; nothing "
            "to do if all clients are inside",
        )
    elif said and machine.addresses and address not in machine.addresses:
        yield note(
            f"clients get {address} (brokerIP1), which is no address of this machine",
            "something has to forward connections to it: NAT, a published port, a load balancer",
            f"from a client's machine: pyrmq tls show {address}:{server.values.get('listenPort')}",
        )
    else:
        yield ok(f"clients get {address}")


def _other(bind: str, address: str) -> bool:
    return bind != address and not (is_loopback(bind) and is_loopback(address))


def _numeric(facts: Facts, host: str) -> str:
    """A host as an address, as far as it resolves."""
    try:
        return str(ip_address(host))
    except ValueError:
        found = [one.addresses for one in facts.cluster.lookups if one.host == host]
        return found[0][0] if found and found[0] else ""
