"""What a connection may do next: its states, and one pure function.

`TRANSITIONS` says how events change the state; an event that a state has no entry for changes
nothing. `next_step` says what the server waits for, from the state and from what the connection has
under way.
"""

from __future__ import annotations

from enum import Enum, auto


class State(Enum):
    OPEN = auto()
    MUTE = auto()
    """The peer takes no more answers. What it sent before it left is still read: a client that
    stops may have its last offsets on the way."""
    CLOSING = auto()
    """Nothing more is read; it is closed once what is under way has been answered."""
    CLOSED = auto()


class Event(Enum):
    SEND_FAILED = auto()
    """The socket took no bytes and never will."""
    PROTOCOL_ERROR = auto()
    """The peer sent what is no frame."""
    ALL_ANSWERED = auto()
    END = auto()
    """The peer has closed its side, or the server gives the connection up."""


TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.OPEN, Event.SEND_FAILED): State.MUTE,
    (State.OPEN, Event.PROTOCOL_ERROR): State.CLOSING,
    (State.OPEN, Event.END): State.CLOSED,
    (State.MUTE, Event.PROTOCOL_ERROR): State.CLOSED,
    (State.MUTE, Event.END): State.CLOSED,
    (State.CLOSING, Event.SEND_FAILED): State.CLOSED,
    (State.CLOSING, Event.ALL_ANSWERED): State.CLOSED,
    (State.CLOSING, Event.END): State.CLOSED,
}


class Step(Enum):
    """What the server waits for next."""

    READ = auto()
    SEND = auto()
    """The socket takes no more at the moment: nothing is read until it does (back-pressure)."""
    FEED = auto()
    """Frames that have arrived already come first."""
    WAIT = auto()
    """Nothing of the socket: something under way ends first."""
    CLOSE = auto()


def next_step(
    state: State,
    *,
    unsent: bool,
    awaited: int,
    unconfirmed: int,
    full: bool,
    more: bool,
    stopping: bool,
) -> Step:
    """`unsent`: bytes wait for the socket; `awaited`: requests that are answered later;
    `unconfirmed`: answers that wait for the barrier; `full`: too many of either to read on;
    `more`: whole frames wait in the session; `stopping`: the server reads nothing new."""
    if state is State.CLOSED:
        return Step.CLOSE
    if state is State.CLOSING and not (unsent or awaited or unconfirmed):
        return Step.CLOSE
    if unsent:
        return Step.SEND
    if state is State.CLOSING or full:
        return Step.WAIT
    if more:
        return Step.FEED
    return Step.WAIT if stopping else Step.READ
