"""Measures what access control and TLS cost plain sends: `python -m benches.access_control`.

Servers run side by side, in one of four ways: plain, with access control (`acl`), with TLS (`tls`),
with both. The load generator sends to two of them in turns, signed or with TLS as each wants it.
The generator signs, and encrypts, on the same cores: with `--both-signed` it signs for both, so
that the ratio has the server's part only.
"""

from __future__ import annotations

import argparse
import json
from contextlib import AbstractContextManager, ExitStack

from benches.paired_servers import HEAD, LOADS, Server, compare, served
from benches.release_build import require_release_build
from pyrmq.net.client.credentials import Credentials
from pyrmq.net.client.tls import Tls

USER = Credentials("rocketmq2", "12345678")
WAYS = ("plain", "acl", "tls", "both")
ACCESS = {
    "authenticationEnabled": "true",
    "authenticationMetadataProvider": "LocalAuthenticationMetadataProvider",
    "authorizationEnabled": "true",
    "authorizationMetadataProvider": "LocalAuthorizationMetadataProvider",
    "initAuthenticationUser": json.dumps(
        {"username": USER.access_key, "password": USER.secret_key}
    ),
    "innerClientAuthenticationCredentials": json.dumps(
        {"accessKey": "inner", "secretKey": "inner-secret"}
    ),
}
"""Keys of a broker whose only users are super users."""


def server(way: str) -> AbstractContextManager[Server]:
    user = USER if way in ("acl", "both") else None
    # Without keys a server makes a certificate, which nobody can verify.
    tls = Tls(insecure=True) if way in ("tls", "both") else None
    return served(ACCESS if user else {}, user=user, tls=tls)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benches.access_control", description=__doc__)
    parser.add_argument("--load", action="append", choices=LOADS)
    parser.add_argument(
        "--way", action="append", choices=WAYS[1:], help="beside plain  [default: all]"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument(
        "--both-signed",
        action="store_true",
        help="sign those to the plain server too: the cost of verifying alone",
    )
    options = parser.parse_args()
    require_release_build()
    with ExitStack() as stack:
        plain = stack.enter_context(server("plain"))
        others = {
            way: stack.enter_context(server(way)) for way in dict.fromkeys(options.way or WAYS[1:])
        }
        print(" " * 13 + HEAD)
        for load in options.load or LOADS:
            for way, other in others.items():
                users = USER if options.both_signed else plain.user, other.user
                line = compare(load, plain, other, options.rounds, options.seconds, users)
                print(f"{load:6} {way:5} {line}", flush=True)


if __name__ == "__main__":
    main()
