"""The figures that a broker gives of itself (runtime info), in groups that people look for.

The names are the brokers' own, because the documents of RocketMQ and `pyrmq admin broker status`
have them. Values that are times or bytes have a second text that people can read.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyrmq.admin.runtime_info import Runtime
from pyrmq.console.rendering import at_time, human_bytes

GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("State", ("brokerActive", "brokerDrain", "refusesMessages", "runtime", "boot", "brokerVersion",
               "startAcceptSend", "connections", "isTransientStorePool")),
    ("Messages in and out", ("put", "get", "msgPut", "msgGet", "deletedUnread")),
    ("Log and disk", ("commitLog", "consumeQueue", "dispatch", "remainHow", "remainTransient",
                      "earliest", "pageCacheLock")),
    ("Requests that wait", ("sendThread", "pullThread", "litePull", "queryThread", "endTransaction",
                            "EndTransaction", "clientManager", "heartbeat", "ackThread", "admin")),
    ("Transactions", ("transaction",)),
    ("Timers", ("timer",)),
    ("Delay levels", ("scheduleMessageOffset",)),
    ("POP", ("pop", "revive")),
)  # fmt: skip
"""A figure belongs to the first group with a beginning of its name; the longest beginning wins."""
OTHERS = "Others"
_TIMES = frozenset({"bootTimestamp", "startAcceptSendRequestTimeStamp", "earliestMessageTimeStamp"})
_BYTES = frozenset({
    "commitLogMinOffset", "commitLogMaxOffset", "dispatchBehindBytes", "putMessageSizeTotal",
    "putMessageAverageSize",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Figure:
    """`readable`: the value as a time or in a unit; empty if the value says it all."""

    name: str
    value: str
    readable: str = ""


def grouped(runtime: Runtime) -> dict[str, list[Figure]]:
    """Figures by group, in the order of GROUPS; groups without any are left out."""
    found: dict[str, list[Figure]] = {title: [] for title, _ in GROUPS}
    found[OTHERS] = []
    for name, value in sorted(runtime.items(), key=lambda item: _order(item[0])):
        found[group_of(name)].append(Figure(name, value, _readable(name, value)))
    return {title: figures for title, figures in found.items() if figures}


def group_of(name: str) -> str:
    best, title = 0, OTHERS
    for group, beginnings in GROUPS:
        for beginning in beginnings:
            if len(beginning) > best and name.startswith(beginning):
                best, title = len(beginning), group
    return title


def _order(name: str) -> tuple[str, int]:
    """Numbers at the end count as numbers: level 10 stands behind level 9."""
    head = name.rstrip("0123456789")
    digits = name[len(head) :][:9]
    return head, int(digits) if digits else -1


def _readable(name: str, value: str) -> str:
    try:
        number = float(value)
    except ValueError:
        return ""
    if name in _TIMES:
        return at_time(number) if number > 0 else ""
    if name in _BYTES and number >= 1024:
        return human_bytes(number)
    return ""
