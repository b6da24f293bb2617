"""Opening a connection on trio, plain or with TLS."""

from __future__ import annotations

import socket
import ssl

import trio

from pyrmq.errors import ConfigError, ConnectError
from pyrmq.net.address import Address, format_address, unreachable
from pyrmq.net.client.tls import Tls
from pyrmq.net.client.tls_context import context_of
from pyrmq.net.client.tls_errors import tls_error_text

CONNECT_TIMEOUT = 3.0
"""Seconds, with the handshake of TLS."""


CLOSE_TIMEOUT = 1.0


async def open_stream(address: Address, tls: Tls | None) -> trio.abc.Stream:
    """A stream to a server. ConnectError, which says what to do; its cause is a TooSlowError if
    the server says nothing."""
    where, connected = format_address(address), False
    try:
        with trio.fail_after(CONNECT_TIMEOUT):
            context = None if tls is None else await _context(tls)
            stream = await trio.open_tcp_stream(*address)
            connected = True
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is None or context is None:
                return stream
            return await _shake_hands(stream, context, address, tls)
    except trio.TooSlowError as e:
        of = "the TLS handshake was not answered" if connected else "no answer"
        raise ConnectError(f"cannot connect to {where}: {of} in {CONNECT_TIMEOUT:g} s") from e
    except ConnectError:  # it is an OSError
        raise
    except ConfigError as e:
        raise ConnectError(f"cannot connect to {where}: {e}") from e
    except (OSError, ValueError) as e:
        # ValueError (UnicodeError): a name server may call anything the name of a host.
        raise ConnectError(f"cannot connect to {where}: {unreachable(address[0], e)}") from e


async def _context(tls: Tls) -> ssl.SSLContext:
    return await trio.to_thread.run_sync(context_of, tls, abandon_on_cancel=True)


async def _shake_hands(
    stream: trio.SocketStream, context: ssl.SSLContext, address: Address, tls: Tls
) -> trio.abc.Stream:
    try:
        # https_compatible: frames say how long they are, so an end without a word is an end.
        secured = trio.SSLStream(
            stream, context, server_hostname=tls.host_of(address[0]), https_compatible=True
        )
        await secured.do_handshake()
    except trio.BrokenResourceError as e:
        await trio.aclose_forcefully(stream)
        why = tls_error_text(e.__cause__ or e, tls, address[0])
        raise ConnectError(f"cannot connect to {format_address(address)}: {why}") from e
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    return secured


async def close_stream(stream: trio.abc.Stream) -> None:
    """Closes at once, or (TLS) when the peer was told, which takes at most CLOSE_TIMEOUT."""
    with trio.CancelScope(shield=True, deadline=trio.current_time() + CLOSE_TIMEOUT):
        if isinstance(stream, trio.SSLStream):
            await stream.aclose()
        else:
            await trio.aclose_forcefully(stream)


def why_broken(error: BaseException) -> str:
    """What ended a stream, where there is more to say than that it has ended."""
    cause = error.__cause__
    if isinstance(cause, ssl.SSLError):
        return tls_error_text(cause, None, "")
    return str(error)
