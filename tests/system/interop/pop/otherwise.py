"""Where our broker answers otherwise than Apache's, on purpose: the code of its answer, and why."""

from __future__ import annotations

from .asking import Row

ILLEGAL, MISSING_FIELD, PARAMETER, FORBIDDEN = 13, 1, 29, 16
_FIELD = "a field that is missing or no number is no 0"
_TIME = "a time that no timer can wait for: Apache gives the messages and forgets them"
_COUNT = "a number of messages from 1 to 32"
_HANDLE = "a handle that no pop has given: Apache stores an acknowledgement that nobody reads"
_MESSAGE = "a handle of another message"
_BATCH = "Apache gives them at once, or never sets a timer again"
_HALF = "Apache loses a half message that is delayed"
_WORD = "Apache takes the default for a word that it does not know"

_STRICTER: dict[str, dict[str, tuple[int, str]]] = {
    "bad pops": {
        "queue no number": (MISSING_FIELD, _FIELD),
        "invisible time no number": (MISSING_FIELD, _FIELD),
        "without queueId": (MISSING_FIELD, _FIELD),
        "without maxMsgNums": (MISSING_FIELD, _FIELD),
        "without invisibleTime": (MISSING_FIELD, _FIELD),
        "without pollTime": (MISSING_FIELD, _FIELD),
        "no messages asked for": (PARAMETER, _COUNT),
        "-1 messages": (PARAMETER, _COUNT),
    },
    "unusual pops": {
        "without initMode": (MISSING_FIELD, _FIELD),
        "invisible time 0": (PARAMETER, _TIME),
        "invisible time -1": (PARAMETER, _TIME),
        "invisible time -100000": (PARAMETER, _TIME),
        "invisible time of 4 days": (PARAMETER, _TIME),
        "invisible time of 2 ** 63 - 1": (PARAMETER, _TIME),
    },
    "acks": {
        "ack, offset at the end": (ILLEGAL, _MESSAGE),
        "ack, empty handle": (ILLEGAL, _HANDLE),
        "ack, handle of one word": (ILLEGAL, _HANDLE),
        "ack, handle of three fields": (ILLEGAL, _HANDLE),
        "ack, handle of seven fields": (ILLEGAL, _HANDLE),
        "ack, handle with words for numbers": (ILLEGAL, _HANDLE),
        "ack, handle of another broker": (ILLEGAL, _HANDLE),
        "ack, handle of the future": (ILLEGAL, _HANDLE),
        "ack, handle with invisible time -1": (ILLEGAL, _HANDLE),
        "ack, handle with invisible time of 2 ** 63 - 1": (ILLEGAL, _HANDLE),
        "ack, handle of another queue": (ILLEGAL, _MESSAGE),
        "ack, handle of another offset": (ILLEGAL, _MESSAGE),
        "ack, handle of another start": (ILLEGAL, _MESSAGE),
        "ack, handle of revive queue 8": (ILLEGAL, _HANDLE),
        "ack, handle of revive queue -1": (ILLEGAL, _HANDLE),
        "ack, handle of retry 9": (ILLEGAL, _HANDLE),
        "ack without consumerGroup": (MISSING_FIELD, _FIELD),
    },
    "batch acks": {
        "batch ack, no body": (MISSING_FIELD, "it is no list either"),
        "batch ack, no bits": (0, "it acknowledges nothing"),
        "batch ack, without bits": (0, "it acknowledges nothing"),
        "batch ack, bits no base64": (ILLEGAL, "Apache: a system error"),
        "batch ack, revive queue 9": (ILLEGAL, _HANDLE),
        "batch ack, another broker": (ILLEGAL, _HANDLE),
    },
    "changes": {
        "change, -1": (PARAMETER, _TIME),
        "change, 4 days": (PARAMETER, _TIME),
        "change, 2 ** 63 - 1": (PARAMETER, _TIME),
        "change, empty handle": (ILLEGAL, _HANDLE),
        "change, handle of one word": (ILLEGAL, _HANDLE),
        "change, handle of seven fields": (ILLEGAL, _HANDLE),
        "change, handle of another time": (ILLEGAL, _MESSAGE),
        "change, handle of revive queue 8": (ILLEGAL, _MESSAGE),
    },
    "peeks": {
        "peek, 33 messages": (PARAMETER, _COUNT),
        "peek, without a number": (MISSING_FIELD, _FIELD),
    },
    "assignments": {
        "assignment, no model": (0, "clustering, as everywhere else"),
        "assignment, no client": (PARAMETER, _FIELD),
        "mode, odd": (PARAMETER, _WORD),
        "mode, no topic": (PARAMETER, _FIELD),
    },
    "timer sends": {
        "2 ** 63 - 1 seconds": (ILLEGAL, "Apache's sum overflows: it delivers at once"),
        "a batch, in a message": (ILLEGAL, _BATCH),
    },
    "recalls": {"recall, without a handle": (MISSING_FIELD, _FIELD)},
    "priorities": {"and a transaction": (ILLEGAL, "a half message without its group")},
    "timers in transactions": {
        "half with seconds": (ILLEGAL, _HALF),
        "half with a level": (ILLEGAL, _HALF),
    },
    "sends to the timer topic": {
        "with a delay": (FORBIDDEN, "Apache sets no timer any more after it"),
        "plain": (FORBIDDEN, "Apache sets no timer any more after it"),
        "a batch with a delay as a whole": (ILLEGAL, _BATCH),
    },
}
STRICTER = {
    f"{part}: {what}": code for part, rows in _STRICTER.items() for what, (code, _) in rows.items()
}
FOLLOWS = {
    "timers in transactions: commit with seconds",
    "timers in transactions: commit with a level",
    *(f"{what}, then the offset" for what in STRICTER if what.startswith("unusual pops: inv")),
}
"""What is not asked then."""
_REFUSALS = {
    "bad pops: born long ago",
    "in order: in order, change of what was acknowledged",
}
"""Though the code is not that of one."""
_PLAIN = "timer sends: stored as plain messages"
_OTHER_VALUES: dict[str, object] = {
    # Those that ours refuses are missing.
    _PLAIN: [
        "-1 seconds", "0 milliseconds", "0 seconds", "its own TIMER_OUT_MS", "now",
        "the moment -1", "the moment 0", "the past",
    ],
}  # fmt: skip
_OTHER_OFFSETS = {"timer sends: its own TIMER_OUT_MS": "7"}
"""As the one before it is refused."""


def comparable(row: Row) -> Row:
    """A row without its text; of a refusal the code is left, as ours come without fields."""
    kept = {name: value for name, value in row.items() if name != "remark"}
    if kept.get("code", 0) not in (0, 19, 210) or kept["what"] in _REFUSALS:
        kept.pop("ext", None)
    return kept


def expected(row: Row) -> Row:
    """What ours answers where Apache's has answered so."""
    what = row["what"]
    row = comparable(row)
    if what in STRICTER:
        return {"what": what, "request": row["request"], "code": STRICTER[what]}
    if what in _OTHER_VALUES:
        row["seen"] = _OTHER_VALUES[what]
    if what in _OTHER_OFFSETS:
        row["ext"]["queueOffset"] = _OTHER_OFFSETS[what]
    if what == "timer sends: stored, rolled":
        del row["seen"]["properties"]["TIMER_ROLL_TIMES"]  # a client may not say so
    return row
