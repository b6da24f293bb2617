"""Checks of ports: free, or taken by whom, and whether the system may give them away."""

from __future__ import annotations

from collections.abc import Iterator

from pyrmq.doctor.facts import Facts, Listener, Port
from pyrmq.doctor.finding import Finding, error, note, ok, warning
from pyrmq.net.address import is_loopback

_ANY = ("0.0.0.0", "::", "")


def free(facts: Facts) -> Iterator[Finding]:
    """A port is free, the server's own, or taken by another process."""
    listeners = facts.machine.listeners
    if listeners is None:
        yield note("which ports are taken is not known: /proc/net/tcp cannot be read")
        return
    for port in facts.server.ports:
        taken = [one for one in listeners if _same(port, one)]
        yield _of_port(facts, port, taken[0]) if taken else ok(f"port {port.number} is free")


def _same(port: Port, one: Listener) -> bool:
    if port.number != one.port:
        return False
    loopback = is_loopback(port.bind) and is_loopback(one.address)
    return port.bind in _ANY or one.address in _ANY or port.bind == one.address or loopback


def _of_port(facts: Facts, port: Port, one: Listener) -> Finding:
    where = f"port {port.number} ({port.key})"
    if one.has_lock:
        return ok(f"{where} is that of the running {facts.server.kind}, pid {one.pid}")
    if not one.pid and facts.machine.locked:
        return note(
            f"{where} is taken by a process of another account; a {facts.server.kind} runs here",
            "it is probably that one",
            f"to be sure: sudo ss -ltnp sport = :{port.number}",
        )
    who = f"pid {one.pid} ({one.command})" if one.pid else "a process of another account"
    make = warning if port.optional else error
    return make(
        f"{where} is taken by {who}",
        "few clients use this port; the broker starts without it"
        if port.optional
        else f"the {facts.server.kind} does not start",
        f"sudo ss -ltnp sport = :{port.number}; stop that process, or set another {port.key}",
    )


def privileged(facts: Facts) -> Iterator[Finding]:
    """Ports below ip_unprivileged_port_start need root."""
    first = facts.sysctl("net.ipv4.ip_unprivileged_port_start")
    if first is None or facts.machine.user == 0:
        return
    for port in facts.server.ports:
        if 0 < port.number < first and not port.optional:
            yield error(
                f"port {port.number} ({port.key}) is below {first}",
                "only root may listen there",
                f"set another {port.key}, or AmbientCapabilities=CAP_NET_BIND_SERVICE in the unit",
            )


def reserved(facts: Facts) -> Iterator[Finding]:
    """Ports within ip_local_port_range may be taken by an outgoing connection."""
    parts = facts.machine.sysctl.get("net.ipv4.ip_local_port_range", "").split()
    if len(parts) != 2 or not all(p.isdecimal() for p in parts):
        return
    low, high = map(int, parts)
    kept = facts.machine.sysctl.get("net.ipv4.ip_local_reserved_ports", "")
    for port in facts.server.ports:
        if low <= port.number <= high and not _within(port.number, kept):
            yield warning(
                f"port {port.number} ({port.key}) is within the range of outgoing connections, "
                f"{low} to {high}",
                "a connection of any program may have it when the server starts",
                f"sysctl -w net.ipv4.ip_local_reserved_ports={port.number}",
            )


def _within(number: int, ranges: str) -> bool:
    for part in ranges.strip().split(","):
        low, _, high = part.partition("-")
        if low.isdecimal() and int(low) <= number <= int(high if high.isdecimal() else low):
            return True
    return False
