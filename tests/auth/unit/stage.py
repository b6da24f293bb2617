"""A dispatcher behind the guard: users and lists in files of the test's own, a connection over a
socket pair, and processors that answer that they were called."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyrmq.auth.access import Access
from pyrmq.auth.guard import Guard, Kind, Rules
from pyrmq.auth.model import Acl, User, UserType, subject_of
from pyrmq.engine import Command, Listener, Session
from pyrmq.net.command import Response
from pyrmq.net.server.connection import Connection
from pyrmq.net.server.dispatch import Dispatcher
from pyrmq.net.server.unconfirmed import Unconfirmed
from tests.support import wire

DONE, REFUSED = 0, 16
ROOT = ("root", "of-root")
ALICE = ("alice", "of-alice")
CLUSTER = "C"


class Peer:
    """The client's end of a connection from an address."""

    def __init__(self, address: str = "10.0.0.5:40000") -> None:
        ours, self.sock = socket.socketpair()
        ours.setblocking(False)
        self.sock.setblocking(False)
        session = Session(Listener(), b"\x7f\0\0\1", 1)
        self.connection = Connection(ours, session, address, lambda connection: None, 0.0)

    def answers(self) -> list[wire.Command]:
        data = b""
        with suppress(BlockingIOError):
            while piece := self.sock.recv(1 << 20):
                data += piece
        return wire.FrameReader().feed(data)

    def close(self) -> None:
        for callback in self.connection.take_callbacks():
            callback(self.connection)
        self.sock.close()
        self.connection.sock.close()


class Granted:
    """What the guard grants the engine."""

    def __init__(self) -> None:
        self.rights: set[tuple[str, Kind, str]] = set()
        self.revoked = 0

    def grant(self, connection: Connection, subject: str, kind: Kind, topic: str) -> None:
        self.rights.add((subject, kind, topic))

    def revoke(self) -> None:
        self.rights.clear()
        self.revoked += 1


class Stage:
    def __init__(self, folder: Path, codes: Iterable[int], **rules: Any) -> None:
        self.access = Access(folder / "users.json", folder / "acls.json")
        self.access.ensure_super(*ROOT)
        self.granted = Granted()
        chosen: dict[str, Any] = {"authorization": True, "cluster": CLUSTER, **rules}
        self.guard = Guard(self.access, Rules(**chosen), self.granted)
        self.called: list[Command] = []
        processors = dict.fromkeys(codes, self._called)
        self.dispatcher = Dispatcher(
            "stage", processors, Unconfirmed("stage", None, 0), guard=self.guard
        )
        self.peers: list[Peer] = []

    def _called(self, connection: Connection, command: Command) -> Response:
        self.called.append(command)
        return Response()

    def peer(self, address: str = "10.0.0.5:40000") -> Peer:
        self.peers.append(Peer(address))
        return self.peers[-1]

    def user(self, name: str, password: str, kind: UserType = UserType.NORMAL) -> None:
        self.access.users.take(self.access.users.with_user(User(name, password, kind)))
        self.guard.revoke()

    def allow(self, name: str, *entries: dict[str, Any]) -> None:
        """`entries` without a decision allow."""
        rows = [{"decision": "Allow", **entry} for entry in entries]
        acl = Acl.from_json(subject_of(name), {"policies": [{"entries": rows}]})
        self.access.acls.take(self.access.acls.with_acl(acl))
        self.guard.revoke()

    def ask(self, command: Command, peer: Peer | None = None) -> int | None:
        """The code of the answer; None if there is none (yet)."""
        peer = peer or (self.peers[0] if self.peers else self.peer())
        self.dispatcher.process(peer.connection, command)
        found = peer.answers()
        return found[0].code if found else None

    def close(self) -> None:
        for peer in self.peers:
            peer.close()
