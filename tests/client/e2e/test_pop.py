"""POP on a real broker: push consumers that pop, and simple consumers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from pyrmq.admin import Admin
from pyrmq.client import ConsumeFrom, Producer, PushConsumer, SimpleConsumer
from pyrmq.errors import InvalidHandleError, PyrmqError
from pyrmq.model.message import Message, MessageQueue, ReceivedMessage
from pyrmq.model.subscription import Sql
from pyrmq.server import Running
from tests.support.fixtures import Serve
from tests.support.server import ServerProcess
from tests.support.waiting import eventually_trio

pytestmark = pytest.mark.usefixtures("deadline")


class Seen:
    """A listener that fails on the first deliveries of bodies that begin with `bad`."""

    def __init__(self, failures: int = 1) -> None:
        self.got: list[tuple[bytes, int]] = []
        self.topics: set[str] = set()
        self.failures = failures

    async def __call__(self, message: ReceivedMessage) -> None:
        self.got.append((message.body, message.reconsume_times))
        self.topics.add(message.topic)
        if message.body.startswith(b"bad") and message.reconsume_times < self.failures:
            raise ValueError("bad")


def popping(namesrv: str, listener: Any, group: str = "pops", **options: Any) -> PushConsumer:
    options = {"consume_from": ConsumeFrom.FIRST_OFFSET, "invisible_time": 5.0, **options}
    if "client_rebalance" not in options:
        options["pop"] = True
    topics = options.pop("topics", {"T": "*"})
    return PushConsumer(group, topics, namesrv=namesrv, listener=listener, **options)


def simple(namesrv: str, group: str = "simple", **options: Any) -> SimpleConsumer:
    options = {"consume_from": ConsumeFrom.FIRST_OFFSET, **options}
    topics = options.pop("topics", {"T": "*"})
    return SimpleConsumer(group, topics, namesrv=namesrv, **options)


async def send(namesrv: str, *bodies: bytes, topic: str = "T", **properties: str) -> None:
    async with Producer("pg", namesrv=namesrv) as producer:
        for body in bodies:
            await producer.send(Message(topic, body, properties=dict(properties)))


async def receive(consumer: SimpleConsumer, count: int, **options: Any) -> list[ReceivedMessage]:
    """So many messages."""
    found: list[ReceivedMessage] = []
    with trio.fail_after(60):
        while len(found) < count:
            found += await consumer.receive(**options)
    return found


async def test_members_pop_all_queues_once(embedded: Running) -> None:
    """Three members, and one that joins later; what failed comes to any of them."""
    listeners = [Seen() for _ in range(4)]
    numbers = [b"%03d" % n for n in range(200)]
    await send(embedded.namesrv, *numbers[:100], b"bad")
    async with trio.open_nursery() as nursery:

        async def member(listener: Seen) -> None:
            async with popping(embedded.namesrv, listener):
                await trio.sleep_forever()

        for listener in listeners[:3]:
            nursery.start_soon(member, listener)
        nursery.start_soon(member, listeners[3])
        await send(embedded.namesrv, *numbers[100:])
        got = await eventually_trio(
            lambda: Counter(entry for seen in listeners for entry in seen.got),
            "all are consumed, the bad one twice",
            until=lambda found: len(found) == 202,
        )
        nursery.cancel_scope.cancel()
    assert set(got) == {(body, 0) for body in (*numbers, b"bad")} | {(b"bad", 1)}
    assert {topic for seen in listeners for topic in seen.topics} == {"T"}
    async with simple(embedded.namesrv, "pops") as rest:
        assert await rest.receive(timeout=0.2) == []


async def test_dead_letters_of_pops(embedded: Running) -> None:
    """After the last delivery, and found in the group's dead-letter topic."""
    seen = Seen(failures=99)
    await send(embedded.namesrv, b"bad", b"good")
    async with popping(embedded.namesrv, seen, max_reconsume_times=0):
        await eventually_trio(lambda: len(seen.got) == 2, "both were delivered")
        async with simple(embedded.namesrv, topics={"%DLQ%pops": "*"}) as dead:
            (message,) = await receive(dead, 1)
            assert message.body == b"bad"
    async with simple(embedded.namesrv, "pops") as rest:
        assert await rest.receive(timeout=0.2) == []


async def test_a_topic_changes_between_pull_and_pop(embedded: Running) -> None:
    """While messages come all the time: each is consumed, what failed in either mode, too."""
    seen, sent = Seen(), list[bytes]()
    async with (
        Admin(embedded.namesrv) as admin,
        Producer("pg", namesrv=embedded.namesrv) as producer,
    ):
        await producer.send(Message("T", b"first"))
        options: Any = {"client_rebalance": False, "rebalance_interval": 0.2}
        async with popping(embedded.namesrv, seen, "switching", **options) as member:
            for mode in ("POP", "PULL", "POP"):
                await eventually_trio(lambda: member.assigned, "it has queues")
                for n in range(30):
                    sent.append(b"%s %s %d" % (b"bad" if n == 7 else b"good", mode.encode(), n))
                    await producer.send(Message("T", sent[-1]))
                await admin.groups.set_consume_mode(
                    "switching", "T", mode, broker=address(embedded)
                )
                is_pop = mode == "POP"
                await eventually_trio(
                    lambda: {q.queue_id == -1 for q in member.assigned} == {is_pop},  # noqa: B023
                    "the mode has changed",
                )
            wanted = {(body, 0) for body in (b"first", *sent)}
            wanted |= {(body, 1) for body in sent if body.startswith(b"bad")}
            await eventually_trio(lambda: set(seen.got) >= wanted, "all are consumed", 60)


def address(server: Running) -> str:
    host, port = server.broker_address
    return f"{host}:{port}"


async def test_operators_see_what_is_popped(embedded: Running) -> None:
    await send(embedded.namesrv, b"m")
    release = trio.Event()

    async def listener(message: ReceivedMessage) -> None:
        await release.wait()

    async with (
        popping(embedded.namesrv, listener, invisible_time=60.0) as member,
        Admin(embedded.namesrv) as admin,
    ):
        pops = member._member.pops
        assert pops is not None
        await eventually_trio(lambda: [q.waiting for q in pops.table.values()] == [1], "popped")
        info = await admin.groups.running_info("pops", member._client.client_id)
        (popped,) = info.pop_queues
        assert popped.queue == MessageQueue("T", "broker-a", -1)
        assert popped.last_pop > 0
        assert info.properties["popInvisibleTime"] == "60000"
        release.set()


async def test_filters_of_pops(serve: Serve) -> None:
    async with serve(enable_property_filter=True, timer_wheel_enable=True) as server:
        for n in range(10):
            await send(server.namesrv, b"%d" % n, number=str(n))
        seen = Seen()
        async with popping(server.namesrv, seen, topics={"T": Sql("number > 6")}):
            await eventually_trio(lambda: len(seen.got) == 3, "three are wanted")
        assert sorted(seen.got) == [(b"7", 0), (b"8", 0), (b"9", 0)]
        async with simple(server.namesrv, topics={"T": Sql("number < 2")}) as consumer:
            found = await receive(consumer, 2)
            assert sorted(m.body for m in found) == [b"0", b"1"]
            await consumer.ack_all(found)
            assert await consumer.receive(timeout=0.2) == []


async def test_handles(embedded: Running) -> None:
    """Acknowledged ones are gone, others come again, old handles are refused."""
    await send(embedded.namesrv, b"a", b"b", b"c")
    async with simple(embedded.namesrv) as consumer:
        found = {m.body: m for m in await receive(consumer, 3, invisible_duration=30)}
        await consumer.ack(found[b"a"])
        await consumer.change_invisible(found[b"b"], 1)
        await consumer.change_invisible(found[b"c"], 60)
        (again,) = await receive(consumer, 1, invisible_duration=30)
        assert (again.body, again.topic, again.reconsume_times) == (b"b", "T", 1)
        with pytest.raises(InvalidHandleError):
            await consumer.ack(found[b"b"])
        await consumer.ack_all([again, found[b"c"]])
        assert await consumer.receive(timeout=0.2) == []


async def test_a_call_that_waits_gets_what_is_sent(embedded: Running) -> None:
    async with simple(embedded.namesrv) as consumer, trio.open_nursery() as nursery:
        found: list[bytes] = []

        async def wait() -> None:
            found.extend(m.body for m in await receive(consumer, 1))

        with trio.move_on_after(0.2):
            await consumer.receive()  # given up: it takes nothing
        nursery.start_soon(wait)
        await send(embedded.namesrv, b"m")
        await eventually_trio(lambda: found == [b"m"], "the message has come")


async def test_fifo(embedded: Running) -> None:
    """Of each queue in order, whatever number of members there are."""
    queue = MessageQueue("T", "broker-a", 2)
    async with Producer("pg", namesrv=embedded.namesrv) as producer:
        for n in range(20):
            await producer.send(Message("T", b"%02d" % n), queue=queue)
    got: list[bytes] = []
    async with (
        simple(embedded.namesrv, fifo=True) as one,
        simple(embedded.namesrv, fifo=True) as other,
        trio.open_nursery() as nursery,
    ):

        async def member(consumer: SimpleConsumer) -> None:
            while len(got) < 20:
                messages = await consumer.receive(3, timeout=1)
                got.extend(m.body for m in messages)
                for message in messages:
                    await consumer.ack(message)

        nursery.start_soon(member, one)
        nursery.start_soon(member, other)
    assert got == [b"%02d" % n for n in range(20)]


async def test_a_broker_stops_while_messages_are_popped(
    tmp_path: Path, serve_apart: Callable[[Path], ServerProcess]
) -> None:
    await _all_are_consumed_once(serve_apart(tmp_path / "store"), "terminate")


async def test_a_broker_is_killed_while_messages_are_popped(
    tmp_path: Path, serve_apart: Callable[[Path], ServerProcess]
) -> None:
    await _all_are_consumed_once(serve_apart(tmp_path / "store"), "kill")


async def _all_are_consumed_once(broker: ServerProcess, end: str) -> None:
    """Each message is consumed, and what an `ack` has returned for does not come again."""
    total, acked, late = 60, Counter[bytes](), list[bytes]()
    with await trio.to_thread.run_sync(broker.start) as server:
        namesrv = f"{server.namesrv[0]}:{server.namesrv[1]}"
        await send(namesrv, *(b"%03d" % n for n in range(total)))
        middle = trio.Event()

        async def consume() -> None:
            async with simple(namesrv) as consumer:
                while len(acked) < total:
                    try:
                        messages = await consumer.receive(4, 5, timeout=2)
                        for message in messages:
                            late.extend([message.body] if message.body in acked else [])
                            await consumer.ack(message)
                            acked[message.body] += 1
                    except PyrmqError:
                        await trio.sleep(0.05)  # what is not acknowledged comes again
                    if len(acked) > total // 3:
                        middle.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(consume)
            await middle.wait()
            await trio.to_thread.run_sync(getattr(server, end))
            await trio.to_thread.run_sync(server.start)
            await eventually_trio(lambda: len(acked) == total, "all are acknowledged", 90)
    assert not late
