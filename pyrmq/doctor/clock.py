"""Checks of the clock: synchronised, and close to the clocks of other servers."""

from __future__ import annotations

from collections.abc import Iterator

from pyrmq.doctor.facts import Facts
from pyrmq.doctor.finding import Finding, error, note, ok, warning

LARGE_ERROR_US = 500_000
APART = 3.0
"""Seconds. What a broker says of its time is whole seconds."""
FAR_APART = 30.0
_SYNC = "timedatectl set-ntp true, or install chrony: apt install chrony"


def synchronised(facts: Facts) -> Iterator[Finding]:
    """What the kernel knows of NTP."""
    clock = facts.machine.clock
    if clock is None:
        yield note("whether the clock is synchronised is not known: the kernel does not tell here")
    elif not clock.synchronised:
        yield warning(
            "the clock is not synchronised",
            "delays, timers, back-checks, retention and searches by time follow this clock",
            _SYNC,
        )
    elif clock.error_us > LARGE_ERROR_US:
        yield warning(
            f"the clock may be wrong by {clock.error_us / 1e6:.1f} s",
            "times of messages differ between brokers",
            "chronyc tracking; chronyc sources: name a server that is nearer",
        )
    else:
        yield ok(f"the clock is synchronised, within {clock.error_us / 1000:.0f} ms")


def beside_others(facts: Facts) -> Iterator[Finding]:
    """This clock beside those of the cluster's brokers, which say when they started and how long
    they run. Name servers tell no time."""
    known = [peer for peer in facts.cluster.peers if peer.ahead is not None]
    apart = [(peer, peer.ahead or 0.0) for peer in known if abs(peer.ahead or 0.0) > APART]
    for peer, ahead in apart:
        word = "ahead of" if ahead > 0 else "behind"
        make = error if abs(ahead) > FAR_APART else warning
        yield make(
            f"the clock of {peer.name} at {peer.address} is {abs(ahead):.0f} s {word} this one",
            "delays end early or late, and a slave that becomes the master jumps in time",
            f"on both machines: {_SYNC}",
        )
    if known and not apart:
        yield ok(f"the clocks of {len(known)} brokers are within {APART:g} s of this one")
