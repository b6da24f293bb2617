"""A door to real servers that passes their answers on as a test says.

Addresses of the servers in an answer become those of the door, so that whoever asked the name
server comes through it again. One answer follows its request before the next request is read.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.support.wire import Command, decode, encode

Address = tuple[str, int]
Passes = Callable[[Command, Command], bytes | None]
"""What comes out for a request and its answer: bytes, or None for nothing at all."""


class Between:
    """A context manager. `address_of` a server is where the door to it is."""

    def __init__(self, *servers: Address) -> None:
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._listeners = {server: socket.create_server(("127.0.0.1", 0)) for server in servers}
        self.passes: Passes = honest
        self.silent: set[Address] = set()
        """Servers none of whose answers comes through."""
        self.unanswered = 0
        """How many requests those had."""
        self._closed = False

    def address_of(self, server: Address) -> str:
        return f"127.0.0.1:{self._listeners[server].getsockname()[1]}"

    def __enter__(self) -> Between:
        for server, listener in self._listeners.items():
            threading.Thread(target=self._accept, args=(server, listener), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True
        for listener in self._listeners.values():
            listener.close()
        self.hang_up()

    def hang_up(self) -> None:
        """Ends all connections."""
        with self._lock:
            for one in self._open:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def _accept(self, server: Address, listener: socket.socket) -> None:
        while not self._closed:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(server, connection), daemon=True).start()

    def _serve(self, server: Address, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection, socket.create_connection(server) as other:
            with self._lock:
                self._open |= {connection, other}
            try:
                for raw in _frames(connection):
                    request = decode(raw)
                    other.sendall(raw)
                    if request.is_oneway:
                        continue
                    answer = next(_frames(other), None)
                    if answer is None:
                        return
                    if server in self.silent:
                        with self._lock:
                            self.unanswered += 1
                        continue
                    out = self.passes(request, self._readdressed(decode(answer)))
                    if out is not None:
                        connection.sendall(out)
            finally:
                with self._lock:
                    self._open -= {connection, other}

    def _readdressed(self, answer: Command) -> Command:
        body = answer.body
        for host, port in self._listeners:
            theirs = f'"{host}:{port}"'.encode()
            body = body.replace(theirs, f'"{self.address_of((host, port))}"'.encode())
        return replace(answer, body=body)


def honest(request: Command, answer: Command) -> bytes:
    """As it was."""
    return encode(answer)


def _frames(connection: socket.socket) -> Iterator[bytes]:
    with connection.makefile("rb") as stream:
        while len(size := stream.read(4)) == 4:
            (total,) = struct.unpack(">i", size)
            yield size + stream.read(total)
