"""A relay between a PostgreSQL client and its server that loses what it is told to lose."""

from __future__ import annotations

import contextlib
import socket
import threading
from enum import Enum
from typing import Self

from .shop import SECONDS

COMMIT = b"Q\0\0\0\x0bCOMMIT\0"
"""As a simple query; the word alone is in rows as well."""


class Loss(Enum):
    NOTHING = "nothing"
    REQUEST = "the COMMIT is not passed on, both sides are closed"
    ANSWER = "the COMMIT is passed on, its answer is not"
    LATE = "the client is closed; the COMMIT is passed on when `deliver` is called"
    HELD = "the client is closed; the server's side stays open until `drop` is called"


class Proxy:
    """Listens on loopback; `loss` says what happens to the next COMMIT of a client."""

    def __init__(self, upstream: str) -> None:
        self.loss = Loss.NOTHING
        self.accepting = True
        """Whether new connections are let through."""
        self.happened = threading.Event()
        """The COMMIT was lost."""
        self._answered = threading.Event()
        self._losing: socket.socket | None = None
        self._upstream = upstream
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._held: list[tuple[socket.socket, bytes]] = []
        self._open: list[socket.socket] = []

    @property
    def address(self) -> tuple[str, int]:
        host, port = self._listener.getsockname()[:2]
        return host, port

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for opened in self._open:
            _close(opened)

    def deliver(self) -> None:
        """Passes the COMMIT on that was held back, and waits until the server has done it."""
        server, data = self._held.pop()
        server.sendall(data)
        assert self._answered.wait(SECONDS), "no answer to the COMMIT"
        _close(server)

    def drop(self) -> None:
        """Closes the server's side of a connection whose COMMIT was held back."""
        server, _ = self._held.pop()
        _close(server)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if not self.accepting:
                client.close()
                continue
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._upstream)
            self._open += [client, server]
            for run in (self._to_server, self._to_client):
                threading.Thread(target=run, args=(client, server), daemon=True).start()

    def _to_server(self, client: socket.socket, server: socket.socket) -> None:
        while data := _receive(client):
            loss = self.loss
            if COMMIT not in data or loss is Loss.NOTHING:
                server.sendall(data)
                continue
            self.loss = Loss.NOTHING
            if loss is Loss.ANSWER:
                self._losing = client
                server.sendall(data)
                continue
            if loss is Loss.REQUEST:
                _close(server)
            else:
                self._held.append((server, data))
            _close(client)
            self.happened.set()
            return
        if not any(held is server for held, _ in self._held):
            _close(server)

    def _to_client(self, client: socket.socket, server: socket.socket) -> None:
        while data := _receive(server):
            if self._losing is client:
                self._losing = None
                _close(client)
                _close(server)
                self.happened.set()
                return
            try:
                client.sendall(data)
            except OSError:
                self._answered.set()
                return
        _close(client)


def _receive(source: socket.socket) -> bytes:
    try:
        return source.recv(65536)
    except OSError:
        return b""


def _close(which: socket.socket) -> None:
    with contextlib.suppress(OSError):
        which.shutdown(socket.SHUT_RDWR)
    which.close()
