"""Why a connection with TLS failed, in words that say what to do."""

from __future__ import annotations

import ssl

from pyrmq.net.client.tls import Tls

EXPIRED, NOT_YET = 10, 9
OTHER_NAMES = (62, 64)
"""For a host name, and for a numeric address."""
UNTRUSTED = (2, 18, 19, 20, 21, 27)
"""A certificate that signs itself, or whose authority is not known. [X509_V_ERR_…]"""
PLAIN = (
    "WRONG_VERSION_NUMBER",
    "RECORD_LAYER_FAILURE",
    "PACKET_LENGTH_TOO_LONG",
    "BAD_RECORD_TYPE",
    "UNEXPECTED_MESSAGE",
    "HTTP_REQUEST",
)
"""What OpenSSL says of bytes that are not TLS."""
VERSIONS = (
    "UNSUPPORTED_PROTOCOL",
    "TLSV1_ALERT_PROTOCOL_VERSION",
    "NO_PROTOCOLS_AVAILABLE",
)
ABOUT_US = (
    "CERTIFICATE",
    "UNKNOWN_CA",
    "HANDSHAKE_FAILURE",
    "ACCESS_DENIED",
)
"""Parts of alerts of servers that want another certificate of the client, or one at all."""
CA = "ca=, --tls-ca, tlsCaFile; of a broker: tls.client.trustCertPath"
OWN = "cert= and key=, --tls-cert and --tls-key, tlsCertFile and tlsKeyFile"
"""How programs, commands, Spark's options and servers name what is missing."""
ENDED = (
    "the server ended the connection during the TLS handshake: it may not accept TLS on this port "
    "(tls.server.mode), or want another certificate"
)


def tls_error_text(error: BaseException, tls: Tls | None, host: str) -> str:
    """`error` is what a handshake raised; or, with `tls` None, what was raised later."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _unverified(error, tls.host_of(host) if tls else host)
    reason = getattr(error, "reason", None) or ""
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError | ssl.SSLSyscallError):
        return ENDED if tls is not None else "the other end hung up"
    if reason in VERSIONS:
        return "the server speaks no TLS 1.2 or newer"
    if reason in PLAIN:
        return "the server speaks no TLS on this port: turn TLS off here, or on there"
    if "_ALERT_" in reason:
        alert = reason.partition("_ALERT_")[2].replace("_", " ").lower()
        if any(part in reason for part in ABOUT_US):
            if tls is not None and tls.cert is None:
                return f"the server wants a client's certificate ({alert}): give {OWN}"
            return (
                f"the server refused the client's certificate ({alert}): give one that an "
                f"authority of the server has signed ({OWN})"
            )
        return f"the server refused the connection ({alert})"
    if isinstance(error, ssl.SSLError):
        return str(reason).replace("_", " ").lower() or str(error)
    return ENDED if tls is not None else str(error)


def _unverified(error: ssl.SSLCertVerificationError, host: str) -> str:
    code = error.verify_code
    if code == EXPIRED:
        return (
            "the server's certificate has expired, or one that signed it: who runs the server must "
            "replace it (`pyrmq tls show HOST:PORT` shows until when it is valid)"
        )
    if code == NOT_YET:
        return "the server's certificate is not valid yet: compare the clocks"
    if code in OTHER_NAMES:
        return (
            f"the server's certificate is not for {host}: give the name that it has "
            "(server_hostname=, --tls-server-name), or accept any name of a trusted authority "
            "(check_hostname=False, --tls-any-name)"
        )
    if code in UNTRUSTED:
        return (
            "the server's certificate is not signed by an authority that is trusted "
            f"({error.verify_message}): give its authority's certificate ({CA})"
        )
    return f"the server's certificate is not valid: {error.verify_message}"
