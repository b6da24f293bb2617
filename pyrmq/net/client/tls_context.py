"""SSL contexts of clients: made of files once, and made again when the files have changed."""

from __future__ import annotations

import logging
import os
import ssl
import threading
from pathlib import Path

from pyrmq.errors import ConfigError
from pyrmq.escape import escape
from pyrmq.net.client.tls import Tls

log = logging.getLogger(__name__)

MAX_FILE = 4 << 20
"""Bytes of a file with certificates or a key."""
MAX_KEPT = 64
"""Contexts that are kept; one more replaces the oldest."""

_Stamp = tuple[tuple[int, ...] | None, ...]
"""What the system says of the files: it changes when they do."""


class _Made:
    def __init__(self, stamp: _Stamp, context: ssl.SSLContext) -> None:
        self.stamp = stamp
        self.context = context


_made: dict[Tls, _Made] = {}
_lock = threading.Lock()


def context_of(tls: Tls) -> ssl.SSLContext:
    """Reads files, so call it in a thread. If changed files are invalid, logs a warning and returns
    the old one. ConfigError if there is no old one."""
    with _lock:
        stamp = tuple(_stamp_of(path) for path in (tls.ca, tls.cert, tls.key))
        made = _made.get(tls)
        if made is not None and made.stamp == stamp:
            return made.context
        try:
            context = _make(tls)
        except ConfigError as e:
            if made is None:
                raise
            log.warning("TLS goes on with the old files: %s", escape(e))
            return made.context
        if made is None and len(_made) >= MAX_KEPT:
            del _made[next(iter(_made))]
        _made[tls] = _Made(stamp, context)
        return context


def _stamp_of(path: str | Path | None) -> tuple[int, ...] | None:
    if path is None:
        return None
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _make(tls: Tls) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.check_hostname = tls.check_hostname and not tls.insecure
    if tls.insecure:
        log.warning("TLS verifies nothing: anybody on the way can read and change all data")
        context.verify_mode = ssl.CERT_NONE
    elif tls.ca is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        _trust(context, Path(tls.ca))
    if tls.cert is not None:
        _identify(context, tls, Path(tls.cert), Path(tls.key or tls.cert))
    return context


def _trust(context: ssl.SSLContext, path: Path) -> None:
    # An intermediate authority, or the certificate of the server itself, may be trusted too.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    text = _read(path, "ca").decode("ascii", "replace")
    if "-----BEGIN" not in text:
        raise ConfigError(f"TLS: ca {escape(path)} has no certificate (PEM)")
    try:
        context.load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError) as e:
        raise ConfigError(f"TLS: ca {escape(path)} has no valid certificate: {_reason(e)}") from e


def _identify(context: ssl.SSLContext, tls: Tls, cert: Path, key: Path) -> None:
    for path, what in ((cert, "cert"), (key, "key")):
        _read(path, what)
    asked = False

    def password() -> str:
        nonlocal asked
        asked = True
        return tls.key_password or ""

    try:
        context.load_cert_chain(cert, key, password)
    except ssl.SSLError as e:
        if e.reason == "KEY_VALUES_MISMATCH":
            why = f"key {escape(key)} is not the key of cert {escape(cert)}"
        elif asked and not tls.key_password:
            why = f"key {escape(key)} is encrypted: give its password"
        elif asked:
            why = f"key {escape(key)} cannot be decrypted: is the password wrong?"
        elif tls.key is None and b"PRIVATE KEY-----" not in _read(cert, "cert"):
            why = f"cert {escape(cert)} has no private key in it: give the file of its key"
        else:
            why = f"cert {escape(cert)} or key {escape(key)} is not valid PEM: {_reason(e)}"
        # Not `from e`: nothing of a password may be shown with it.
        raise ConfigError(f"TLS: {why}") from None
    except (OSError, ValueError) as e:
        raise ConfigError(f"TLS: cert {escape(cert)}, key {escape(key)}: {e}") from None


def _read(path: Path, what: str) -> bytes:
    try:
        with path.open("rb") as file:
            found = file.read(MAX_FILE + 1)
    except (OSError, ValueError) as e:
        why = e.strerror if isinstance(e, OSError) else e
        raise ConfigError(f"TLS: {what} {escape(path)} cannot be read: {why}") from None
    if len(found) > MAX_FILE:
        raise ConfigError(f"TLS: {what} {escape(path)} has more than {MAX_FILE} bytes")
    return found


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", None)
    return str(reason).lower().replace("_", " ") if reason else str(error)
