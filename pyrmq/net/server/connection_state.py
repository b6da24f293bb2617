"""The states of a connection, and what the server does next with it.

`TRANSITIONS` says how events change the state. An event that a state has no entry for changes
nothing. `next_step` is a pure function: from the state and from what the connection has under way
it says what the server waits for.
"""

from __future__ import annotations

from enum import Enum, auto


class State(Enum):
    OPEN = auto()
    MUTE = auto()
    """The peer takes no more answers. The server still reads what the peer sent before it left: a
    client that stops may have its last offsets on the way."""
    CLOSING = auto()
    """The server reads nothing more, and closes the connection once all that is under way has been
    answered."""
    CLOSED = auto()


class Event(Enum):
    SEND_FAILED = auto()
    """The socket failed: it takes no more bytes."""
    PROTOCOL_ERROR = auto()
    """The peer sent something that is not a frame."""
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
    """Until the socket takes the unsent bytes. Nothing is read meanwhile (back-pressure)."""
    FEED = auto()
    """Frames that have arrived already are fed first."""
    WAIT = auto()
    """Nothing from the socket: something under way has to end first."""
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
    `unconfirmed`: answers that wait until the log is confirmed; `full`: too many of either, so that
    nothing more is read; `more`: whole frames wait in the session; `stopping`: the server reads
    nothing new."""
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
