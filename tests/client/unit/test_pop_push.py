"""Push consumers that pop: what is acknowledged, what comes again, what ends as a dead letter."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from pyrmq.client import ConsumeFrom, MessageModel, PushConsumer, ReconsumeLater
from pyrmq.client.consumer.pop import pop_queues
from pyrmq.client.consumer.pop.pop_back import STEPS
from pyrmq.client.hooks import ConsumeContext, ConsumeMessageHook, ConsumeOutcome
from pyrmq.errors import ClientError
from pyrmq.model.message import MessageQueue, ReceivedMessage
from tests.client.members import after, consumer
from tests.support.scripted.groups import SEND_BACK, UPDATE_OFFSET
from tests.support.scripted.pops import ACK, ASSIGNMENT, BATCH_ACK, CHANGE, POP, PopBroker
from tests.support.scripted.script import times
from tests.support.scripted.streams import SILENCE

RETRY = "%RETRY%g_T"


class Seen:
    """A listener that fails on bodies that begin with `bad`, and takes `seconds`."""

    def __init__(self, failure: Exception | None = None, seconds: float = 0.0) -> None:
        self.got: list[tuple[bytes, int]] = []
        self.at: list[float] = []
        self.failure = failure or ValueError("bad")
        self.seconds = seconds

    async def __call__(self, message: ReceivedMessage) -> None:
        self.got.append((message.body, message.reconsume_times))
        self.at.append(trio.current_time())
        await trio.sleep(self.seconds)
        if message.body.startswith(b"bad"):
            raise self.failure


def popping(**options: object) -> PushConsumer:
    return consumer(**{"pop": True, **options})


async def test_what_is_consumed_is_acknowledged_once(popped: PopBroker, clock: MockClock) -> None:
    """Messages of all queues, several of them with one request; nothing comes again."""
    seen = Seen()
    for n in range(20):
        popped.put(b"m%d" % n, queue=n % 2)
    async with popping(listener=seen) as member:
        await after(1)
        assert sorted(seen.got) == sorted((b"m%d" % n, 0) for n in range(20))
        assert member.assigned == [MessageQueue("T", "broker-a", -1)]
        await after(200)
    assert sorted(popped.bodies(popped.acked)) == sorted(b"m%d" % n for n in range(20))
    assert len(seen.got) == 20
    assert not popped.late
    assert len(popped.requests(ACK, BATCH_ACK)) < 20


async def test_a_pop_says_what_is_wanted(popped: PopBroker, clock: MockClock) -> None:
    async with popping(
        listener=Seen(), invisible_time=30, pop_batch_size=7, topics={"T": "a || b"}
    ):
        await after(1)
    fields = dict(popped.requests(POP)[0].ext)
    assert fields.pop("bornTime").isdigit()
    assert fields == {
        "consumerGroup": "g",
        "topic": "T",
        "queueId": "-1",
        "maxMsgNums": "7",
        "invisibleTime": "30000",
        "pollTime": "15000",
        "initMode": "0",
        "expType": "TAG",
        "exp": "a || b",
        "order": "false",
        "bname": "broker-a",
    }


async def test_what_is_settled_behind_a_slow_message_is_forgotten(
    popped: PopBroker, clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slow one stays what its consumer has: it is acknowledged in the end."""
    monkeypatch.setattr(pop_queues, "PRUNE", 8)

    async def listener(message: ReceivedMessage) -> None:
        await trio.sleep(100 if message.body == b"slow" else 0)

    async with popping(listener=listener, invisible_time=300) as member:
        popped.put(b"slow")
        await after(1)
        for n in range(40):
            popped.put(b"%d" % n)
            await after(0.1)
        assert member._member.pops is not None
        assert len(member._member.pops._points) < 20
        await after(110)
    assert len(popped.acked) == 41


async def test_a_failed_message_comes_again_in_steps(popped: PopBroker, clock: MockClock) -> None:
    """After 10, 30 and 60 seconds; other messages do not wait for it."""
    seen = Seen()
    async with popping(listener=seen):
        await after(1)
        popped.put(b"bad")
        popped.put(b"good")
        await after(110)
    assert seen.got == [(b"bad", 0), (b"good", 0), (b"bad", 1), (b"bad", 2), (b"bad", 3)]
    began, _, *again = seen.at
    assert [round(at - before) for at, before in zip(again, [began, *again], strict=False)] == [
        *STEPS[:3]
    ]


async def test_a_level_chooses_the_step(popped: PopBroker, clock: MockClock) -> None:
    async with popping(listener=Seen(ReconsumeLater(delay_level=5))):
        await after(1)
        popped.put(b"bad")
        await after(1)
    (change,) = popped.requests(CHANGE)
    assert change.ext["invisibleTime"] == str(STEPS[5] * 1000)


@pytest.mark.parametrize("level", [0, -1])
async def test_too_many_deliveries_end_as_a_dead_letter(
    popped: PopBroker, clock: MockClock, level: int
) -> None:
    """RocketMQ's client would acknowledge it and have nothing left."""
    seen = Seen(ReconsumeLater(delay_level=level))
    async with popping(listener=seen, max_reconsume_times=2):
        await after(1)
        popped.put(b"bad", times=0 if level else 2)
        await after(300)
    assert len(seen.got) == 1
    (dead,) = popped.sent_back
    assert dead.ext["delayLevel"] == "-1"
    assert popped.bodies(popped.acked) == [b"bad"]


async def test_an_overdue_message_is_a_dead_letter_without_a_listener(
    popped: PopBroker, clock: MockClock
) -> None:
    """Whoever had it last died before it could put it aside."""
    seen = Seen()
    async with popping(listener=seen, max_reconsume_times=2):
        await after(1)
        popped.put(b"good", times=3)
        await after(5)
    assert not seen.got
    assert len(popped.sent_back) == 1
    assert popped.bodies(popped.acked) == [b"good"]


async def test_a_dead_letter_that_is_not_taken_comes_again(
    popped: PopBroker, clock: MockClock
) -> None:
    """It is acknowledged only when the broker has it elsewhere."""
    seen = Seen()
    popped.change[SEND_BACK] = times(1, lambda c: c.reply(1, {}, b""))
    popped.change[310] = times(1, lambda c: c.reply(1))
    async with popping(listener=seen, max_reconsume_times=0):
        await after(1)
        popped.put(b"bad")
        await after(5)
        assert not popped.acked
        await after(60)
    assert len(popped.sent_back) == 1
    assert popped.bodies(popped.acked) == [b"bad"]


async def test_an_ack_is_repeated_within_the_invisible_time(
    popped: PopBroker, clock: MockClock
) -> None:
    seen = Seen()
    popped.change[ACK] = times(3, lambda c: SILENCE)
    async with popping(listener=seen):
        await after(1)
        popped.put(b"m")
        await after(100)
    assert popped.bodies(popped.acked) == [b"m"]
    assert seen.got == [(b"m", 0)]


async def test_an_ack_that_fails_too_long_is_given_up(popped: PopBroker, clock: MockClock) -> None:
    """The message comes again; its old handle is not used any more."""
    seen = Seen()
    popped.change[ACK] = lambda c: c.reply(2) if trio.current_time() < 25 else None
    async with popping(listener=seen, invisible_time=10):
        await after(1)
        popped.put(b"m")
        await after(60)
    assert [body for body, _ in seen.got] == [b"m"] * len(seen.got)
    assert len(seen.got) > 1
    assert len(popped.acked) == 1
    assert not popped.late


async def test_a_broker_without_batches_gets_single_acks(
    popped: PopBroker, clock: MockClock
) -> None:
    popped.change[BATCH_ACK] = lambda c: c.reply(3)
    for n in range(10):
        popped.put(b"m%d" % n)
    async with popping(listener=Seen()):
        await after(1)
        for n in range(10):
            popped.put(b"n%d" % n)
        await after(1)
    assert len(popped.acked) == 20
    assert len(popped.requests(BATCH_ACK)) == 1


async def test_a_late_result_counts_for_nothing(popped: PopBroker, clock: MockClock) -> None:
    """A listener that takes longer than the invisible time: another delivery is under way."""
    seen = Seen(seconds=12)
    async with popping(listener=seen, invisible_time=10, close_grace=0):
        await after(1)
        popped.put(b"m")
        await after(14)
        assert not popped.acked
        assert not popped.late
        seen.seconds = 0
        await after(30)
    assert len(popped.acked) == 1
    assert not popped.late


async def test_what_waits_too_long_is_not_consumed(popped: PopBroker, clock: MockClock) -> None:
    """Two wait behind a slow one until others may have them: only what comes again is consumed."""
    seen = Seen(seconds=9)
    for n in range(3):
        popped.put(b"m%d" % n)
    async with popping(listener=seen, concurrency=1, invisible_time=10, close_grace=0):
        await after(19)
        seen.seconds = 0
        await after(100)
    consumed = [body for body, times in seen.got if times == 0]
    assert len(consumed) == 2  # the second began in time, and ended late
    assert sorted(popped.bodies(popped.acked)) == [b"m0", b"m1", b"m2"]
    assert not popped.late


async def test_a_member_that_dies_loses_nothing(popped: PopBroker, clock: MockClock) -> None:
    """Another one gets what it had after the invisible time."""
    slow, seen = Seen(seconds=1000), Seen()
    for n in range(5):
        popped.put(b"m%d" % n)
    async with popping(listener=slow, invisible_time=20, close_grace=0) as first:
        await after(1)
        assert len(slow.got) == 5
        popped.cut.add(first._client.client_id)
    async with popping(listener=seen, invisible_time=20):
        await after(15)
        assert not seen.got
        await after(15)
    assert sorted(seen.got) == [(b"m%d" % n, 1) for n in range(5)]
    assert len(popped.acked) == 5


async def test_closing_waits_for_listeners_and_acks(popped: PopBroker, clock: MockClock) -> None:
    """What was consumed before the end is acknowledged, whatever the first try came to; what was
    not begun is not."""
    seen = Seen(seconds=2)
    popped.change[ACK] = times(1, lambda c: c.reply(2))
    popped.put(b"m0")
    popped.put(b"m1")
    async with popping(listener=seen, concurrency=1, close_grace=5):
        await after(1)
    assert seen.got == [(b"m0", 0)]
    assert popped.bodies(popped.acked) == [b"m0"]
    assert popped.bodies(list(popped.invisible)) == [b"m1"]


async def test_popping_pauses_while_too_much_waits(popped: PopBroker, clock: MockClock) -> None:
    seen = Seen(seconds=5)
    async with popping(
        listener=seen, concurrency=1, pop_batch_size=2, max_popped_messages=3, close_grace=0
    ) as member:
        await after(1)
        for n in range(12):
            popped.put(b"m%d" % n)
        await after(1)
        (popping_queue,) = member._member.pops.table.values()  # type: ignore[union-attr]
        assert popping_queue.waiting == 4
        assert popping_queue.paused_by == {"messages": 1}
        seen.seconds = 0
        await after(10)
    assert len(popped.acked) == 12


async def test_messages_of_other_tags_are_acknowledged(popped: PopBroker, clock: MockClock) -> None:
    """Brokers compare hashes of tags."""
    seen = Seen()
    async with popping(listener=seen, topics={"T": "a"}):
        await after(1)
        popped.put(b"m", TAGS="a")
        popped.put(b"other", TAGS="b")
        await after(1)
    assert seen.got == [(b"m", 0)]
    assert sorted(popped.bodies(popped.acked)) == [b"m", b"other"]


async def test_a_suspended_consumer_pops_nothing(popped: PopBroker, clock: MockClock) -> None:
    """What a pop brings that was under way waits, or comes again."""
    seen = Seen()
    async with popping(listener=seen, invisible_time=10) as member:
        await after(1)
        member.suspend()
        popped.put(b"m0")
        await after(1)
        popped.put(b"m1")
        await after(30)
        assert not seen.got
        member.resume()
        await after(30)
    assert sorted(body for body, _ in seen.got) == [b"m0", b"m1"]
    assert len(popped.acked) == 2


async def test_a_broker_that_comes_back_is_popped_again(
    popped: PopBroker, clock: MockClock
) -> None:
    seen = Seen()
    async with popping(listener=seen):
        await after(1)
        popped.put(b"m0")
        await after(1)
        await popped.restart()
        await after(1)
        popped.put(b"m1")
        await after(5)
    assert seen.got == [(b"m0", 0), (b"m1", 0)]


async def test_a_new_group_begins_where_the_consumer_says(
    popped: PopBroker, clock: MockClock
) -> None:
    """In all queues before the first pop, not when the broker looks into each."""
    popped.put(b"old", queue=0)
    popped.put(b"old", queue=1)
    seen = Seen()
    async with popping(listener=seen, consume_from=ConsumeFrom.LAST_OFFSET):
        popped.put(b"new", queue=0)
        popped.put(b"new", queue=1)
        await after(1)
    assert seen.got == [(b"new", 0)] * 2
    writes = [c.ext for c in popped.requests(UPDATE_OFFSET) if c.ext["topic"] == "T"]
    written = {ext["queueId"]: ext["commitOffset"] for ext in writes}
    assert written["0"] == written["1"] == "1"


async def test_an_unsubscribed_topic_is_not_popped(popped: PopBroker, clock: MockClock) -> None:
    """What a listener has begun is acknowledged, what waits is not consumed."""
    seen = Seen(seconds=1)
    async with popping(listener=seen, concurrency=1, topics={"T": "*", "U": "*"}) as member:
        await after(1)
        popped.put(b"m0")
        popped.put(b"m1")
        await after(0.5)
        await member.unsubscribe("T")
        await after(20)
        assert seen.got == [(b"m0", 0)]
        assert popped.bodies(popped.acked) == [b"m0"]
        assert [queue.topic for queue in member.assigned] == ["U"]


async def test_a_loop_acknowledges_popped_messages(popped: PopBroker, clock: MockClock) -> None:
    for n in range(3):
        popped.put(b"m%d" % n)
    async with popping() as member:
        got = []
        async for message in member:
            got.append(message.body)
            if len(got) == 3:
                member.acknowledge(message)
                break
        await after(1)
        assert len(popped.acked) == 3
        popped.put(b"back")
        async for message in member:
            await member.send_back(message)
            with pytest.raises(ClientError, match="only messages"):
                await member.send_back(message)
            break
    assert popped.requests(CHANGE)[0].ext["invisibleTime"] == "10000"


async def test_the_retry_topic_of_pulls_is_pulled(popped: PopBroker, clock: MockClock) -> None:
    """Messages that the group sent back while it pulled."""
    seen = Seen()
    popped.put(b"m", topic="%RETRY%g", times=1, RETRY_TOPIC="T")
    async with popping(listener=seen):
        await after(1)
        assert seen.got == [(b"m", 1)]
        await after(6)
    assert popped.offsets["g", "%RETRY%g", 0] == 1


async def test_namespaces(popped: PopBroker, clock: MockClock) -> None:
    """Listeners see the user's names, brokers their own; also in retries and dead letters."""
    topics: list[str] = []

    async def listener(message: ReceivedMessage) -> None:
        topics.append(message.topic)
        raise ReconsumeLater

    popped.put(b"bad", topic="ns%T")
    async with popping(listener=listener, namespace="ns", max_reconsume_times=1):
        await after(15)
    assert topics == ["T", "T"]
    assert [p.topic for p in popped.acked] == ["%RETRY%ns%g_ns%T"]
    assert popped.sent_back[0].ext["group"] == "ns%g"


async def test_hooks_and_operators_see_pops(popped: PopBroker, clock: MockClock) -> None:
    seen: list[ConsumeOutcome | None] = []

    class Hook(ConsumeMessageHook):
        def after(self, context: ConsumeContext) -> None:
            seen.append(context.status)

    release = trio.Event()

    async def listener(message: ReceivedMessage) -> None:
        await release.wait()
        raise ValueError

    popped.put(b"m")
    async with popping(listener=listener, hooks=[Hook()]) as member:
        await after(1)
        info = member._member._running_info(False)
        (table,) = info["mqPopTable"].items()
        assert dict(table[0]) == {"topic": "T", "brokerName": "broker-a", "queueId": -1}
        assert table[1]["waitAckCount"] == 1
        assert not table[1]["droped"]
        assert info["properties"]["popThresholdForQueue"] == "96"
        release.set()
        await after(1)
    assert seen == [ConsumeOutcome.EXCEPTION]


# The broker's assignment.


async def test_a_broker_switches_a_topic(popped: PopBroker, clock: MockClock) -> None:
    """From pull to POP and back: everything is consumed once, also what failed in between."""
    seen = Seen()
    async with consumer(listener=seen, client_rebalance=False, rebalance_interval=1) as member:
        await after(1)
        popped.put(b"pulled")
        await after(1)
        popped.modes["T"] = "POP"
        await after(2)
        assert member.assigned == [MessageQueue("T", "broker-a", -1)]
        assert popped.offsets["g", "T", 0] == 1
        popped.put(b"popped")
        popped.put(b"bad")
        await after(2)
        popped.modes["T"] = "PULL"
        await after(17)
        popped._revive()
        popped.wake((RETRY, 0))
        popped.put(b"pulled again")
        await after(12)
        assert MessageQueue("T", "broker-a", 0) in member.assigned
    assert seen.got.count((b"pulled", 0)) == 1
    assert seen.got.count((b"popped", 0)) == 1
    assert seen.got.count((b"bad", 0)) == 1
    assert (b"bad", 1) in seen.got
    assert seen.got.count((b"pulled again", 0)) == 1
    asked = popped.requests(ASSIGNMENT)[0]
    assert b'"strategyName":"AVG"' in asked.body


async def test_orderly_consumers_share_by_themselves(popped: PopBroker, clock: MockClock) -> None:
    popped.modes["T"] = "POP"
    popped.put(b"m")
    seen = Seen()
    async with consumer(listener=seen, orderly=True, client_rebalance=False):
        await after(1)
    assert seen.got == [(b"m", 0)]
    assert not popped.requests(ASSIGNMENT, POP)


async def test_a_broker_that_does_not_share(
    popped: PopBroker, clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    popped.change[ASSIGNMENT] = lambda c: c.reply(3)
    async with consumer(listener=Seen(), client_rebalance=False):
        await after(2)
    assert "use client_rebalance=True" in caplog.text


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"pop": True, "orderly": True}, "exclude each other"),
        ({"pop": True, "message_model": MessageModel.BROADCASTING}, "exclude each other"),
        ({"pop": True, "client_rebalance": False}, "leave pop=True away"),
        ({"client_rebalance": False, "strategy": lambda q, i, o: []}, "average_by_circle"),
        ({"invisible_time": 30.0}, "invisible_time goes with pop=True"),
        ({"pop_batch_size": 8}, "pop_batch_size goes with"),
        ({"max_popped_messages": 8}, "max_popped_messages goes with"),
        ({"pop": True, "invisible_time": 4.0}, "invisible_time"),
        ({"pop": True, "pop_batch_size": 33}, "pop_batch_size"),
    ],
)
def test_options_that_do_not_go_together(options: dict[str, object], text: str) -> None:
    with pytest.raises(ClientError, match=text):
        consumer(listener=Seen(), **options)
