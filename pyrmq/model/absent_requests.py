"""Requests of RocketMQ that no server of this version takes, and why: the text of the refusal."""

from __future__ import annotations

_STATIC = "static topics are not supported"
_CONTROLLER = "there is no controller: a broker's role is in its configuration (brokerRole)"
_AUTH = "users and access lists are not supported: adminAddressAllowList says who may administrate"
_COLD = "cold data flow control is not supported"
_ROCKSDB = "there is no RocksDB: tables are JSON files, queues are files of RocketMQ's format"
_POP = "POP consumption is not supported: every group pulls"
_CONTAINER = "this is no broker container: start another broker instead"
_HA = "the default HA protocol has no such request"

ABSENT_REQUESTS: dict[int, str] = {
    **dict.fromkeys((2001, 2002, 2003), _COLD),
    2004: "pages of the log are read ahead as the system does it: there is no mode to set",
    **dict.fromkeys((354, 355), _ROCKSDB),
    **dict.fromkeys((400, *range(200050, 200057), 200151), _POP),
    **dict.fromkeys((513,), _STATIC),
    **dict.fromkeys((902, 903), _CONTAINER),
    **dict.fromkeys((906, 908), _HA),
    **dict.fromkeys(range(1001, 1014), _CONTROLLER),
    **dict.fromkeys(range(3001, 3011), _AUTH),
}
"""By request code."""


def refusal(code: int) -> str:
    """The text for a request that is not taken."""
    why = ABSENT_REQUESTS.get(code)
    text = f"request type {code} not supported"
    return f"{text}: {why}" if why else text
