"""The URL of an access point, and the attributes of access points, producers and consumers.
[AccessPointURI, OMSBuiltinKeys, NonStandardKeys]

Each attribute is accepted where it has a meaning, and nowhere else. An access point takes all that
any of its producers and consumers takes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum

from pyrmq.client.checks import check_kind
from pyrmq.errors import ClientError, ConfigError, NotSupportedError
from pyrmq.net.client.credentials import Credentials
from pyrmq.net.client.tls import Tls
from pyrmq.oms.message import KeyValue, Value

MAX_URL = 4096
MAX_SERVERS = 64
NO_NAMESPACE = frozenset({"default", "default:default"})
"""The last part in OpenMessaging's own examples, where it has no effect."""
FORM = "oms:rocketmq://HOST:PORT[,HOST:PORT…]/NAMESPACE"

_URL = re.compile(r"(oms|openmessaging):([^:/]*)://([^/]*)(?:/(.*))?", re.DOTALL)
_SERVER = re.compile(r"([a-zA-Z0-9._-]{1,253}|\[[0-9a-fA-F:.]{2,45}\]):([0-9]{1,5})")
_NAMESPACE = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class AccessPointUrl:
    """servers: name servers, `host:port` with `,` between them. region: the last part, unchanged.
    namespace: its meaning, empty for none."""

    servers: str
    region: str
    namespace: str

    @property
    def namesrv(self) -> str:
        """In the form of pyrmq's clients."""
        return self.servers.replace(",", ";")


def parse_url(url: str) -> AccessPointUrl:
    """`oms:rocketmq://…` or `openmessaging:rocketmq://…`. Raises ConfigError for an invalid URL,
    and NotSupportedError for another driver or an account."""
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
            f"{shown} names an account: leave out what is before the @, and give credentials= to "
            "the access point"
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


ON_TRIO = (
    "pyrmq.oms",
    "use pyrmq.oms.aio, which has the same names, or pyrmq.oms.sync in threads",
)
"""What this package says where it is entered in an event loop that is not trio's; for
`check_trio`."""


class Attribute(StrEnum):
    """Names of attributes; plain strings work as well."""

    DRIVER_IMPL = "DRIVER_IMPL"
    ACCESS_POINTS = "ACCESS_POINTS"
    REGION = "REGION"
    CONSUMER_ID = "CONSUMER_ID"
    OPERATION_TIMEOUT = "OPERATION_TIMEOUT"
    PRODUCER_GROUP = "rmq.producer.group"
    MAX_REDELIVERY_TIMES = "rmq.max.redelivery.times"
    MESSAGE_CONSUME_TIMEOUT = "rmq.message.consume.timeout"
    MAX_CONSUME_THREAD_NUMS = "rmq.max.consume.thread.nums"
    PULL_MESSAGE_BATCH_NUMS = "rmq.pull.message.batch.nums"
    PULL_MESSAGE_CACHE_CAPACITY = "rmq.pull.message.cache.capacity"


class Kind(StrEnum):
    """The kind of object that attributes are for."""

    PRODUCER = "a producer"
    PUSH_CONSUMER = "a push consumer"
    PULL_CONSUMER = "a pull consumer"


@dataclass(frozen=True, slots=True)
class _Rule:
    kinds: frozenset[Kind]
    check: Callable[[str, str], object]
    default: str | None


def _text(name: str, text: str) -> str:
    if not text:
        raise ConfigError(f"attribute {name} is empty")
    return text


def _whole(low: int, high: int) -> Callable[[str, str], int]:
    def check(name: str, text: str) -> int:
        if not re.fullmatch("[0-9]{1,10}", text) or not low <= int(text) <= high:
            raise ConfigError(f"attribute {name} is {text!r:.80}; {low} to {high} is possible")
        return int(text)

    return check


def _minutes(name: str, text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,9})?", text) or not 1 <= float(text) * 60 <= 86400:
        raise ConfigError(f"attribute {name} is {text!r:.80}; minutes are needed, 1/60 to 1440")
    return float(text)


_PRODUCER, _PUSH, _PULL = (frozenset({kind}) for kind in Kind)
_INT = 2**31 - 1
_RULES = {
    Attribute.CONSUMER_ID: _Rule(_PUSH | _PULL, _text, None),
    Attribute.OPERATION_TIMEOUT: _Rule(_PRODUCER | _PULL, _whole(1, _INT), "5000"),
    Attribute.PRODUCER_GROUP: _Rule(_PRODUCER, _text, "__OMS_PRODUCER_DEFAULT_GROUP"),
    Attribute.MAX_REDELIVERY_TIMES: _Rule(_PUSH | _PULL, _whole(0, _INT), "16"),
    Attribute.MESSAGE_CONSUME_TIMEOUT: _Rule(_PUSH | _PULL, _minutes, "15"),
    Attribute.MAX_CONSUME_THREAD_NUMS: _Rule(_PUSH, _whole(1, 1000), "20"),
    Attribute.PULL_MESSAGE_BATCH_NUMS: _Rule(_PULL, _whole(1, 1024), "32"),
    Attribute.PULL_MESSAGE_CACHE_CAPACITY: _Rule(_PULL, _whole(1, 65535), "1000"),
}
_OF_URL = {Attribute.DRIVER_IMPL, Attribute.ACCESS_POINTS, Attribute.REGION}
_ROUTING = "RocketMQ has no routing between queues"
_NOT_SUPPORTED = {
    "ACCOUNT_ID": "give credentials= to the access point",
    "PRODUCER_ID": f"the group of a producer is {Attribute.PRODUCER_GROUP}",
    "ROUTING_SOURCE": _ROUTING,
    "ROUTING_DESTINATION": _ROUTING,
    "ROUTING_EXPRESSION": _ROUTING,
    "rmq.consumer.group": "the group of a consumer is CONSUMER_ID",
    "rmq.min.consume.thread.nums": "the calls of listeners at a time are "
    f"{Attribute.MAX_CONSUME_THREAD_NUMS}, whatever waits",
    "rmq.message.consume.status": "a listener says so with context.ack()",
    "rmq.message.destination": "the topic of a message is its header DESTINATION",
}


def check_attributes(values: Mapping[str, Value] | None, kind: Kind | None = None) -> KeyValue:
    """Checks attributes of an access point, or of one of its producers and consumers. Raises
    ConfigError and NotSupportedError."""
    try:
        given = KeyValue(values)
    except ClientError as e:
        raise ConfigError(f"attributes: {e}") from None
    for name, text in given.items():
        rule = _rule(name)
        rule.check(name, text)
        if kind is not None and kind not in rule.kinds:
            others = " and ".join(sorted(rule.kinds))
            raise ConfigError(f"attribute {name} means nothing to {kind}, but to {others}")
    return given


def _rule(name: str) -> _Rule:
    if name in _NOT_SUPPORTED:
        raise NotSupportedError(f"attribute {name} is not supported: {_NOT_SUPPORTED[name]}")
    if name in _OF_URL:
        raise ConfigError(f"attribute {name} is what the URL says: it cannot be given")
    try:
        return _RULES[Attribute(name)]
    except ValueError:
        close = get_close_matches(name[:80], [str(a) for a in _RULES], 1)
        known = f"did you mean {close[0]}" if close else f"there are {', '.join(_RULES)}"
        raise ConfigError(f"there is no attribute {name!r:.80} ({known})") from None


@dataclass(frozen=True, slots=True)
class Settings:
    """The attributes of one producer or consumer: its own, then those of its access point, then the
    defaults."""

    url: AccessPointUrl
    attributes: KeyValue
    credentials: Credentials | None = None
    tls: Tls | None = None

    def whole(self, name: Attribute) -> int:
        return int(self.attributes[name])

    @property
    def operation_timeout(self) -> float:
        """Seconds."""
        return self.whole(Attribute.OPERATION_TIMEOUT) / 1000

    @property
    def consume_timeout(self) -> float:
        """Seconds."""
        return float(self.attributes[Attribute.MESSAGE_CONSUME_TIMEOUT]) * 60


def attributes_of_url(url: AccessPointUrl) -> KeyValue:
    """The attributes in a URL."""
    return KeyValue(
        {
            Attribute.DRIVER_IMPL: "rocketmq",
            Attribute.ACCESS_POINTS: url.servers,
            Attribute.REGION: url.region,
        }
    )


def settings(
    url: AccessPointUrl,
    shared: KeyValue,
    own: Mapping[str, Value] | None,
    kind: Kind,
    credentials: Credentials | None = None,
    tls: Tls | None = None,
) -> Settings:
    """`shared` are already checked. Raises ConfigError and NotSupportedError."""
    rules = {name: rule for name, rule in _RULES.items() if kind in rule.kinds}
    defaults: dict[str, Value] = {
        name: rule.default for name, rule in rules.items() if rule.default is not None
    }
    inherited: dict[str, Value] = {name: text for name, text in shared.items() if name in rules}
    found = attributes_of_url(url)
    for values in (defaults, inherited, check_attributes(own, kind)):
        for name, value in values.items():
            found[name] = value
    if Attribute.CONSUMER_ID in rules and Attribute.CONSUMER_ID not in found:
        raise ConfigError(f"{kind} needs the attribute CONSUMER_ID, the name of its group")
    return Settings(url, found, credentials, tls)
