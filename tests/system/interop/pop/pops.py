"""Pops, acknowledgements and changes of the invisible time: good ones, and each kind of bad one."""

from __future__ import annotations

from typing import Any

from tests.support.client import Client
from tests.support.waiting import eventually

from .asking import ORDERLY, Asker, now_ms
from .requests import (
    ACK,
    BATCH_ACK,
    CHANGE_INVISIBLE,
    PEEK,
    POP,
    QUERY_OFFSET,
    Popped,
    batch_ack,
    make_group,
    make_topic,
    pop,
    popped,
)

HUGE = 2**63 - 1
NOTHING = 210
OFFSETS = {"invisible time of 4 days": 0}
"""What a group gets to by an unusual pop, if not the end."""
MISSING = ("consumerGroup", "topic", "queueId", "maxMsgNums", "invisibleTime", "pollTime")
ALSO_MISSING = ("bornTime", "initMode", "expType", "exp", "order")


def fill(client: Client, topic: str, group: str, count: int, queues: int = 1) -> None:
    """A topic with messages m0, m1, … in queue 0, and a group."""
    make_topic(client, topic, queues)
    make_group(client, group)
    for number in range(count):
        answer = client.send(topic, b"m%d" % number, properties={"TAGS": f"T{number % 2}"})
        assert answer.code == 0, answer.remark
    eventually(
        lambda: client.max_offset(topic, 0), "all are in the queue", until=lambda n: n >= count
    )


def take(asker: Asker, what: str, topic: str, group: str, /, **change: object) -> Popped:
    return popped(asker.ask(what, POP, pop(topic, group, **change)), group)


def committed(asker: Asker, what: str, topic: str, group: str, offset: int) -> None:
    """The offset that a group gets to, some time after the answer to its pop."""
    fields = {"consumerGroup": group, "topic": topic, "queueId": 0}
    answer = eventually(
        lambda: asker.call(QUERY_OFFSET, fields),
        f"{what}: {offset}",
        until=lambda answer: answer.ext.get("offset") == str(offset),
    )
    asker.note(what, QUERY_OFFSET, answer)


def bad_pops(asker: Asker) -> None:
    topic, group = "PopBad", "PopBadGroup"
    fill(asker.client, topic, group, 3)
    changes: dict[str, dict[str, object]] = {
        "unknown topic": {"topic": "PopUnknown"},
        "empty topic": {"topic": ""},
        "unknown group": {"consumerGroup": "PopUnknownGroup"},
        "queue behind the last": {"queueId": 1},
        "33 messages": {"maxMsgNums": 33},
        "tags unreadable": {"expType": "SQL92", "exp": "a >"},
        "unknown kind of expression": {"expType": "ODD", "exp": "a"},
        "born long ago": {"bornTime": now_ms() - 10_000},
        "born long ago, still polls": {"bornTime": now_ms() - 10_000, "pollTime": 10_200},
        "queue no number": {"queueId": "x"},
        "invisible time no number": {"invisibleTime": "x"},
    }
    for what, change in changes.items():
        asker.ask(what, POP, pop(topic, group, **change))
    for name in MISSING:
        asker.ask(f"without {name}", POP, pop(topic, group, **{name: None}))
    make_topic(asker.client, "PopWriteOnly", perm=2)
    asker.ask("topic write only", POP, pop("PopWriteOnly", group))
    make_group(asker.client, "PopDisabled", consumeEnable=False)
    asker.ask("group disabled", POP, pop(topic, "PopDisabled"))
    asker.ask("no messages asked for", POP, pop(topic, group, maxMsgNums=0))
    asker.ask("-1 messages", POP, pop(topic, group, maxMsgNums=-1))


def unusual_pops(asker: Asker) -> None:
    """That are answered all the same."""
    for name in ALSO_MISSING:
        topic, group = f"PopWithout{name}", f"PopWithout{name}Group"
        fill(asker.client, topic, group, 1)
        asker.ask(f"without {name}", POP, pop(topic, group, **{name: None}))
    changes: dict[str, dict[str, object]] = {
        "invisible time 0": {"invisibleTime": 0},
        "invisible time -1": {"invisibleTime": -1},
        "invisible time -100000": {"invisibleTime": -100_000},
        "invisible time of 4 days": {"invisibleTime": 4 * 86_400_000},
        "invisible time of 2 ** 63 - 1": {"invisibleTime": HUGE},
        "queue -1": {"queueId": -1},
        "queue -5": {"queueId": -5},
        "init mode 7": {"initMode": 7},
        "tags that fit": {"exp": "T0 || T9"},
        "tags that do not fit": {"exp": "T9"},
        "SQL": {"expType": "SQL92", "exp": "TAGS = 'T1'"},
        "born in the future": {"bornTime": now_ms() + 3_600_000},
        "poll time -1": {"pollTime": -1},
    }
    for number, (what, change) in enumerate(changes.items()):
        topic, group = f"PopOdd{number}", f"PopOdd{number}Group"
        fill(asker.client, topic, group, 2)
        answer = asker.ask(what, POP, pop(topic, group, **change))
        if answer.code in (0, NOTHING):
            committed(asker, f"{what}, then the offset", topic, group, OFFSETS.get(what, 2))


def init_modes(asker: Asker) -> None:
    for mode, word in ((0, "first"), (1, "last")):
        topic, group = f"PopInit{mode}", f"PopInit{mode}Group"
        fill(asker.client, topic, group, 3)
        asker.ask(f"init mode {mode}, {word}", POP, pop(topic, group, initMode=mode))
        committed(asker, f"init mode {mode}, then the offset", topic, group, 3)
        asker.ask(f"init mode {mode}, again", POP, pop(topic, group, initMode=mode))


def acks(asker: Asker) -> None:
    topic, group = "PopAck", "PopAckGroup"
    fill(asker.client, topic, group, 6, queues=2)
    asker_take = take(asker, "two of six", topic, group, maxMsgNums=2)
    committed(asker, "offset after two", topic, group, 2)
    asker.ask("ack", ACK, asker_take.ack())
    asker.ask("the same ack again", ACK, asker_take.ack())
    asker.ask("ack of the other", ACK, asker_take.ack(1))
    rest = take(asker, "the rest", topic, group)
    handles: dict[str, dict[str, object]] = {
        "unknown topic": {"topic": "PopUnknown"},
        "unknown group": {"consumerGroup": "PopUnknownGroup"},
        "queue -1": {"queueId": -1},
        "queue behind the last": {"queueId": 2},
        "another queue": {"queueId": 1},
        "offset -1": {"offset": -1},
        "offset at the end": {"offset": 6},
        "offset behind the end": {"offset": 7},
        "offset no number": {"offset": "x"},
        "empty handle": {"extraInfo": ""},
        "handle of one word": {"extraInfo": "x"},
        "handle of three fields": {"extraInfo": "0 1 2"},
        "handle of seven fields": {"extraInfo": rest.handle().rsplit(" ", 1)[0]},
        "handle of nine fields": {"extraInfo": rest.handle() + " 1"},
        "handle with words for numbers": {"extraInfo": rest.handle(start="x")},
        "handle of another broker": {"extraInfo": rest.handle(broker="broker-z")},
        "handle of another time": {"extraInfo": rest.handle(popTime=now_ms() - 5_000)},
        "handle of the future": {"extraInfo": rest.handle(popTime=now_ms() + 3_600_000)},
        "handle with invisible time -1": {"extraInfo": rest.handle(invisibleTime=-1)},
        "handle with invisible time of 2 ** 63 - 1": {"extraInfo": rest.handle(invisibleTime=HUGE)},
        "handle of another queue": {"extraInfo": rest.handle(queue=1)},
        "handle of another offset": {"extraInfo": rest.handle(offset=5)},
        "handle of another start": {"extraInfo": rest.handle(start=5)},
        "handle of revive queue 8": {"extraInfo": rest.handle(reviveQid=8)},
        "handle of revive queue -1": {"extraInfo": rest.handle(reviveQid=-1)},
        "handle of an orderly pop": {"extraInfo": rest.handle(reviveQid=ORDERLY)},
        "handle of retry 2": {"extraInfo": rest.handle(retry=2)},
        "handle of retry 9": {"extraInfo": rest.handle(retry=9)},
    }  # fmt: skip
    for what, change in handles.items():
        asker.ask(f"ack, {what}", ACK, rest.ack(**change))
    for name in ("consumerGroup", "topic", "queueId", "extraInfo", "offset"):
        asker.ask(f"ack without {name}", ACK, rest.ack(**{name: None}))
    asker.ask("ack with a lite topic", ACK, rest.ack(liteTopic="lite"))


def batch_acks(asker: Asker) -> None:
    topic, group = "PopBatch", "PopBatchGroup"
    fill(asker.client, topic, group, 12)
    one = take(asker, "eight of twelve", topic, group)
    bodies: dict[str, bytes] = {
        "no body": b"",
        "not JSON": b"x",
        "empty object": b"{}",
        "empty list": batch_ack(),
        "bits 0 and 2": batch_ack(one.batch("BQ==")),
        "bits 0 and 2 again": batch_ack(one.batch("BQ==")),
        "bits behind the end of the queue": batch_ack(one.batch("AAAAgA==")),
        "no bits": batch_ack(one.batch("")),
        "without bits": batch_ack(one.batch("", b=None)),
        "bits no base64": batch_ack(one.batch("%%%")),
        "unknown topic": batch_ack(one.batch("Ag==", t="PopUnknown")),
        "unknown group": batch_ack(one.batch("Ag==", c="PopUnknownGroup")),
        "queue 7": batch_ack(one.batch("Ag==", q=7)),
        "retry topic that is not there": batch_ack(one.batch("Ag==", r="1")),
        "revive queue 9": batch_ack(one.batch("Ag==", rq=9)),
        "orderly": batch_ack(one.batch("Ag==", rq=999)),
        "another broker": batch_ack(one.batch("Ag=="), broker="broker-z"),
        "two entries, the first of an unknown topic": batch_ack(
            one.batch("Ag==", t="PopUnknown"), one.batch("CA==")
        ),
        "long names": batch_ack({
            "consumerGroup": group, "topic": topic, "retry": "0", "startOffset": one.start,
            "queueId": 0, "reviveQueueId": int(one.answer.ext["reviveQid"]),
            "popTime": int(one.answer.ext["popTime"]),
            "invisibleTime": int(one.answer.ext["invisibleTime"]), "bitSet": "EA==",
        }),
    }  # fmt: skip
    for what, body in bodies.items():
        asker.ask(f"batch ack, {what}", BATCH_ACK, {}, body)


def changes(asker: Asker) -> None:
    topic, group = "PopChange", "PopChangeGroup"
    fill(asker.client, topic, group, 8, queues=2)
    all_of = take(asker, "eight", topic, group)
    asked: dict[str, dict[str, object]] = {
        "60 s": {"invisibleTime": 60_000},
        "the same handle again": {"invisibleTime": 60_000},
        "0": {"invisibleTime": 0},
        "-1": {"invisibleTime": -1},
        "4 days": {"invisibleTime": 4 * 86_400_000},
        "2 ** 63 - 1": {"invisibleTime": HUGE},
        "no number": {"invisibleTime": "x"},
        "without": {"invisibleTime": None},
        "unknown topic": {"topic": "PopUnknown"},
        "unknown group": {"consumerGroup": "PopUnknownGroup"},
        "queue 2": {"queueId": 2},
        "queue -1": {"queueId": -1},
        "offset -1": {"offset": -1},
        "offset at the end": {"offset": 8},
        "empty handle": {"extraInfo": ""},
        "handle of one word": {"extraInfo": "x"},
        "handle of seven fields": {"extraInfo": all_of.handle().rsplit(" ", 1)[0]},
        "handle of another time": {"extraInfo": all_of.handle(popTime=now_ms() - 5000)},
        "handle of revive queue 8": {"extraInfo": all_of.handle(reviveQid=8)},
        "suspended": {"suspend": "true"},
    }
    for number, (what, change) in enumerate(asked.items()):
        fields = all_of.ack(number % 8) | {"invisibleTime": 60_000} | change
        asker.ask(f"change, {what}", CHANGE_INVISIBLE, fields)
    asker.ask("ack of the old handle after a change", ACK, all_of.ack())


def orderly(asker: Asker) -> None:
    topic, group = "PopOrder", "PopOrderGroup"
    fill(asker.client, topic, group, 6)
    ordered: dict[str, Any] = {"order": "true", "maxMsgNums": 2}
    first = take(asker, "two in order", topic, group, **ordered, attemptId="a")
    committed(asker, "in order, then the offset", topic, group, 0)
    asker.ask("in order, blocked", POP, pop(topic, group, **ordered, attemptId="b"))
    asker.ask("in order, without an attempt, blocked", POP, pop(topic, group, **ordered))
    again = take(asker, "in order, the same attempt again", topic, group, **ordered, attemptId="a")
    asker.ask("in order, ack with the older handle", ACK, first.ack())
    asker.ask("in order, ack of the first", ACK, again.ack())
    committed(asker, "in order, offset after one ack", topic, group, 1)
    asker.ask("in order, ack of the first again", ACK, again.ack())
    asker.ask("in order, change", CHANGE_INVISIBLE, again.ack(1, invisibleTime=60_000))
    asker.ask(
        "in order, change of what was acknowledged",
        CHANGE_INVISIBLE,
        again.ack(0, invisibleTime=60_000),
    )
    asker.ask("in order, ack of an offset that was not popped", ACK, again.ack(offset=4))
    asker.ask("in order, ack behind the end", ACK, again.ack(offset=9))
    asker.ask("in order, still blocked", POP, pop(topic, group, **ordered, attemptId="c"))
    asker.ask("in order, ack of the second", ACK, again.ack(1))
    committed(asker, "in order, offset after both", topic, group, 2)
    second = take(asker, "in order, the next two", topic, group, **ordered, attemptId="c")
    asker.ask("in order, batch ack", BATCH_ACK, {}, batch_ack(second.batch("Aw==", rq=999)))
    committed(asker, "in order, offset after the batch", topic, group, 4)
    short = take(asker, "in order, for 300 ms", topic, group, **ordered, invisibleTime=300)
    fields = pop(topic, group, **ordered, invisibleTime=60_000)
    again_after = eventually(
        lambda: asker.call(POP, fields | {"bornTime": now_ms()}),
        "they are visible again",
        until=lambda answer: answer.code == 0,
    )
    asker.note("in order, visible again", POP, again_after)
    asker.ask("in order, ack after it became visible", ACK, short.ack())


def peeks(asker: Asker) -> None:
    topic, group = "PopPeek", "PopPeekGroup"
    fill(asker.client, topic, group, 3)
    fields: dict[str, object] = {
        "consumerGroup": group, "topic": topic, "queueId": 0, "maxMsgNums": 2,
    }  # fmt: skip
    asked: dict[str, dict[str, object]] = {
        "two of three": {},
        "two of three again": {},
        "queue -1": {"queueId": -1},
        "unknown topic": {"topic": "PopUnknown"},
        "unknown group": {"consumerGroup": "PopUnknownGroup"},
        "queue behind the last": {"queueId": 1},
        "33 messages": {"maxMsgNums": 33},
        "without a number": {"maxMsgNums": None},
    }
    for what, change in asked.items():
        asker.ask(f"peek, {what}", PEEK, fields | change)
    asker.ask("pop after the peeks", POP, pop(topic, group))
    asker.ask("peek, nothing left", PEEK, fields)


PARTS = {
    "bad pops": bad_pops,
    "unusual pops": unusual_pops,
    "init modes": init_modes,
    "acks": acks,
    "batch acks": batch_acks,
    "changes": changes,
    "in order": orderly,
    "peeks": peeks,
}
