"""A script on a loopback port, a thread for each connection."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator

from tests.support.scripted.script import HANG_UP, SILENCE, Script
from tests.support.wire import FrameReader, encode


class SocketServer:
    """`serves` has the connection of each serving thread. `secure`: it speaks TLS; `refused` has
    what went wrong with handshakes."""

    def __init__(self, script: Script, secure: ssl.SSLContext | None = None) -> None:
        self._script = script
        self.secure = secure
        self.refused: list[Exception] = []
        self.serves: dict[int, socket.socket] = {}

    @contextlib.contextmanager
    def serving(self) -> Iterator[str]:
        """Answers until the end of the block; "host:port"."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
            yield f"127.0.0.1:{listener.getsockname()[1]}"
            listener.shutdown(socket.SHUT_RDWR)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        if self.secure is not None:
            secured = self.secure.wrap_socket(
                connection, server_side=True, do_handshake_on_connect=False
            )
            try:
                secured.do_handshake()
            except OSError as e:
                self.refused.append(e)
                secured.close()
                return
            connection = secured
        reader = FrameReader()
        self.serves[threading.get_ident()] = connection
        with connection, contextlib.suppress(OSError):
            while data := connection.recv(1 << 16):
                for command in reader.feed(data):
                    answer = self._script.answer(command)
                    if answer is HANG_UP:
                        return
                    if answer is not SILENCE:
                        connection.sendall(encode(answer))
