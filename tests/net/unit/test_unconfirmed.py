"""Answers of processors that wait for the barrier, with a session that only counts."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Any

from pyrmq.net.command import Response
from pyrmq.net.server.answers import WhenConfirmed
from pyrmq.net.server.connection import Connection
from pyrmq.net.server.connection_state import Step
from pyrmq.net.server.unconfirmed import Unconfirmed


@dataclass
class FullSession:
    """So many answers wait that the peer is not read on; the barrier has passed them already."""

    unconfirmed: int = 4096
    more: bool = False
    commands: int = 0

    @property
    def full(self) -> bool:
        return self.unconfirmed >= 4096

    def answer(self, *_: object) -> None:
        self.unconfirmed += 1

    def send_released(self, *_: object) -> None:
        self.unconfirmed = 0


@dataclass
class Request:
    code: int = 37
    flag: int = 0
    codec: int = 0
    opaque: int = 1
    since_us: int = 0


def test_a_connection_whose_answers_have_left_is_read_on() -> None:
    """Also when an answer of a processor, and not the event of the flush, has found it out: no
    event comes any more that would do it."""
    ours, peer = socket.socketpair()
    with ours, peer:
        session: Any = FullSession()
        request: Any = Request()
        steps: list[Step] = []

        def changed(connection: Connection) -> None:
            steps.append(connection.next_step(stopping=False))

        connection = Connection(ours, session, "peer", changed, 0.0)
        assert connection.next_step(stopping=False) is Step.WAIT
        connection.events = 0
        unconfirmed = Unconfirmed("test", None, 5000)
        unconfirmed.note(connection)
        unconfirmed.answer(connection, request, WhenConfirmed(Response(), 100))
        assert not unconfirmed
        assert steps == [Step.READ]
