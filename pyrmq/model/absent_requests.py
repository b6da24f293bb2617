"""Requests of RocketMQ that no server of this version takes, and why: the text of the refusal."""

from __future__ import annotations

_STATIC = (
    "static topics are not supported: make an ordinary topic (UPDATE_AND_CREATE_TOPIC), whose "
    "queues are numbered by broker"
)
_CONTROLLER = "there is no controller, a broker's role is in its configuration (brokerRole)"
_AUTH = "users and access lists are not supported: adminAddressAllowList says who may administrate"
_COLD = (
    "cold data flow control is not supported: this broker does not count what groups read from the "
    "disk, and holds none of them back"
)
_ROCKSDB = "there is no RocksDB: tables are JSON files, queues are files of RocketMQ's format"
_POP = "POP consumption is not supported: every group pulls"
_POP_RECORDS = "POP consumption is not supported: there are no records of it to write"
_CONTAINER = "this is no broker container: start another broker instead"
_HA = "the default HA protocol has no such request"
_FLUSHED = (
    "a slave takes from its master how far the master is, and a master has none: there is no "
    "offset to set"
)
_READ_AHEAD = (
    "the broker asks the system for just the pages of the log that a read needs: there is no mode "
    "to set"
)

ABSENT_REQUESTS: dict[int, str] = {
    **dict.fromkeys((2001, 2002, 2003), _COLD),
    2004: _READ_AHEAD,
    **dict.fromkeys((354, 355), _ROCKSDB),
    **dict.fromkeys((400, *range(200050, 200056), 200151), _POP),
    200056: _POP_RECORDS,
    **dict.fromkeys((513,), _STATIC),
    **dict.fromkeys((902, 903), _CONTAINER),
    906: _HA,
    908: _FLUSHED,
    **dict.fromkeys(range(1001, 1014), _CONTROLLER),
    **dict.fromkeys(range(3001, 3011), _AUTH),
}
"""By request code."""


def refusal(code: int) -> str:
    """The text for a request that is not taken."""
    why = ABSENT_REQUESTS.get(code)
    text = f"request type {code} not supported"
    return f"{text}: {why}" if why else text
