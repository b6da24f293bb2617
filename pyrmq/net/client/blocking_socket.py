"""Opening a connection on a socket that does not block, plain or with TLS."""

from __future__ import annotations

import socket
import ssl
from typing import Any

from pyrmq.errors import ConfigError, ConnectError
from pyrmq.net.address import Address, format_address, unreachable
from pyrmq.net.client.tls import Tls
from pyrmq.net.client.tls_context import context_of
from pyrmq.net.client.tls_errors import tls_error_text

CONNECT_TIMEOUT = 3.0
"""Seconds; the handshake of TLS has as many again."""
RECORD = 16 << 10
"""Most bytes that are handed to TLS at a time: one record, so that what has left is known."""


class TlsSocket:
    """A socket with TLS that behaves as a plain one that does not block. TLS may hold bytes
    (`pending`) of which a poll knows nothing."""

    def __init__(self, secured: ssl.SSLSocket) -> None:
        self._secured = secured
        self.pending = secured.pending
        self.fileno = secured.fileno
        self.close = secured.close

    def send(self, data: memoryview) -> int:
        """How many bytes have left. BlockingIOError if none can."""
        try:
            return self._secured.send(data[:RECORD])
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None

    def recv_into(self, place: Any) -> int:
        """How many bytes were there, 0 at the end. BlockingIOError if there are none yet."""
        try:
            with memoryview(place) as view:
                return self._secured.recv_into(view)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None


def open_socket(address: Address, tls: Tls | None) -> socket.socket | TlsSocket:
    """A connection to a server. ConnectError, which says what to do."""
    where = format_address(address)
    try:
        context = None if tls is None else context_of(tls)
        plain = socket.create_connection(address, CONNECT_TIMEOUT)
    except ConfigError as e:
        raise ConnectError(f"cannot connect to {where}: {e}") from e
    except (OSError, ValueError) as e:
        # ValueError (UnicodeError): a name server may call anything the name of a host.
        raise ConnectError(f"cannot connect to {where}: {unreachable(address[0], e)}") from e
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if tls is None or context is None:
        plain.setblocking(False)
        return plain
    opened: socket.socket = plain
    try:
        # What may fail goes before wrap_socket and behind it: within it the socket stays open.
        host = tls.host_of(address[0])
        host.encode("idna")
        opened = secured = context.wrap_socket(
            plain, server_hostname=host, do_handshake_on_connect=False
        )
        secured.do_handshake()
    except TimeoutError as e:
        opened.close()
        why = f"the TLS handshake was not answered in {CONNECT_TIMEOUT:g} s"
        raise ConnectError(f"cannot connect to {where}: {why}") from e
    except (OSError, ValueError) as e:
        opened.close()
        why = tls_error_text(e, tls, address[0])
        raise ConnectError(f"cannot connect to {where}: {why}") from e
    secured.setblocking(False)
    return TlsSocket(secured)


def why_failed(error: OSError) -> str:
    """What an operation raised, in words."""
    return tls_error_text(error, None, "") if isinstance(error, ssl.SSLError) else str(error)
