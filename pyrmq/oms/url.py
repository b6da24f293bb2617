"""The URL of an access point. [AccessPointURI]"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pyrmq.client.checks import check_kind
from pyrmq.errors import ConfigError, NotSupportedError

MAX_URL = 4096
MAX_SERVERS = 64
NO_NAMESPACE = frozenset({"default", "default:default"})
"""What the last part is in OpenMessaging's own examples; there it has no effect."""
FORM = "oms:rocketmq://HOST:PORT[,HOST:PORT…]/NAMESPACE"

_URL = re.compile(r"(oms|openmessaging):([^:/]*)://([^/]*)(?:/(.*))?", re.DOTALL)
_SERVER = re.compile(r"([a-zA-Z0-9._-]{1,253}|\[[0-9a-fA-F:.]{2,45}\]):([0-9]{1,5})")
_NAMESPACE = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class AccessPointUrl:
    """servers: name servers, `host:port` with `,` between them. region: the last part as it
    stands; namespace: what it means, empty for none."""

    servers: str
    region: str
    namespace: str

    @property
    def namesrv(self) -> str:
        """As pyrmq's clients take it."""
        return self.servers.replace(",", ";")


def parse_url(url: str) -> AccessPointUrl:
    """`oms:rocketmq://…` or `openmessaging:rocketmq://…`. ConfigError for what is no such URL,
    NotSupportedError for another driver or an account."""
    check_kind("the URL", url, (str,), "str")
    if len(url) > MAX_URL:
        raise ConfigError(f"the URL has {len(url)} characters; at most {MAX_URL} are possible")
    account, found = "@" in url, _URL.fullmatch(url)
    shown = "the URL" if account else f"the URL {url!r:.200}"  # an account may hold a password
    if found is None:
        raise ConfigError(f"{shown} is not {FORM}")
    _, driver, servers, region = found.groups()
    if driver != "rocketmq":
        raise NotSupportedError(f"{shown} is not for the driver rocketmq: there is no other here")
    if account:
        raise NotSupportedError(
            f"{shown} names an account: this client sends no credentials, leave out what is before "
            "the @"
        )
    return AccessPointUrl(_servers(servers, shown), *_region(region, shown))


def _servers(text: str, shown: str) -> str:
    servers = text.split(",")
    if len(servers) > MAX_SERVERS:
        raise ConfigError(
            f"{shown} names {len(servers)} servers; at most {MAX_SERVERS} are possible"
        )
    for server in servers:
        found = _SERVER.fullmatch(server)
        if found is None or not 0 < int(found[2]) < 65536:
            raise ConfigError(
                f"{shown}: {server!r:.100} is not HOST:PORT of a name server; commas separate "
                "several"
            )
    return text


def _region(text: str | None, shown: str) -> tuple[str, str]:
    """The last part, and the namespace that it means."""
    if not text:
        raise ConfigError(f"{shown} does not end in /NAMESPACE; /default means none")
    if text in NO_NAMESPACE:
        return text, ""
    if not _NAMESPACE.fullmatch(text):
        raise ConfigError(
            f"{shown}: {text!r:.100} is no namespace, which has 1 to 64 of the characters "
            "a-zA-Z0-9_-; /default means none, and attributes do not belong into the URL"
        )
    return text, text
