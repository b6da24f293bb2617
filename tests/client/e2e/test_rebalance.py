"""Consumers of one group share its queues; brokers and name servers that come and go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from pyrmq.client import ConsumeFrom, Producer, PushConsumer
from pyrmq.errors import ClientError, ConnectError, PyrmqError
from pyrmq.model.message import Message, MessageQueue
from pyrmq.model.record import ReceivedMessage
from pyrmq.server import Running
from tests.support.consumed import bodies, queues_assigned, take
from tests.support.server import ServerProcess
from tests.support.waiting import eventually_trio

pytestmark = pytest.mark.usefixtures("deadline")


def consumer(namesrv: str, group: str = "cg") -> PushConsumer:
    return PushConsumer(
        group, {"Topic": "*"}, namesrv=namesrv, consume_from=ConsumeFrom.FIRST_OFFSET
    )


async def send_everywhere(namesrv: str, first: int, count: int) -> set[bytes]:
    """Sends numbered messages to all queues in turn; returns their bodies."""
    sent = set()
    async with Producer("pg", namesrv=namesrv) as producer:
        for n in range(first, first + count):
            await producer.send(Message("Topic", b"%04d" % n))
            sent.add(b"%04d" % n)
    return sent


async def test_two_consumers_share_and_one_takes_over(embedded: Running) -> None:
    """Every message arrives; some may arrive twice while queues change hands, as in RocketMQ."""
    namesrv = embedded.namesrv
    seen: tuple[Counter[bytes], Counter[bytes]] = (Counter(), Counter())

    async def collect(reader: PushConsumer, counter: Counter[bytes]) -> None:
        async for message in reader:
            counter[message.body] += 1

    sent = await send_everywhere(namesrv, 0, 8)
    async with trio.open_nursery() as nursery, consumer(namesrv) as first:
        nursery.start_soon(collect, first, seen[0])
        await queues_assigned(first, 4)
        await eventually_trio(lambda: set(seen[0]) == sent, "the only consumer gets everything")
        async with consumer(namesrv) as second, trio.open_nursery() as inner:
            inner.start_soon(collect, second, seen[1])
            await queues_assigned(first, 2)
            await queues_assigned(second, 2)
            assert {*first.assigned, *second.assigned} == {
                MessageQueue("Topic", "broker-a", n) for n in range(4)
            }
            shared = await send_everywhere(namesrv, 8, 40)
            await eventually_trio(lambda: shared <= {*seen[0], *seen[1]}, "all shared messages")
            assert len(shared & set(seen[0])) == len(shared & set(seen[1])) == 20
            inner.cancel_scope.cancel()
        await queues_assigned(first, 4)
        last = await send_everywhere(namesrv, 48, 8)
        await eventually_trio(
            lambda: last <= set(seen[0]), "the consumer that stayed gets everything"
        )
        nursery.cancel_scope.cancel()


async def test_more_consumers_than_queues(embedded: Running) -> None:
    await send_everywhere(embedded.namesrv, 0, 4)
    async with (
        consumer(embedded.namesrv) as a,
        consumer(embedded.namesrv) as b,
        consumer(embedded.namesrv) as c,
        consumer(embedded.namesrv) as d,
        consumer(embedded.namesrv) as e,
    ):
        everyone = [a, b, c, d, e]
        await eventually_trio(
            lambda: sorted(len(x.assigned) for x in everyone) == [0, 1, 1, 1, 1], "one queue each"
        )


async def test_groups_do_not_share(embedded: Running) -> None:
    sent = await send_everywhere(embedded.namesrv, 0, 12)
    async with consumer(embedded.namesrv, "g1") as a, consumer(embedded.namesrv, "g2") as b:
        assert bodies(await take(a, 12)) == sorted(sent)
        assert bodies(await take(b, 12)) == sorted(sent)


async def test_messages_in_hand_go_to_the_next_consumer(embedded: Running) -> None:
    """A consumer that fails with messages unacknowledged: whoever comes next gets them."""
    sent = await send_everywhere(embedded.namesrv, 0, 40)
    seen: set[bytes] = set()

    async def listener(message: ReceivedMessage) -> None:
        seen.add(message.body)

    async def fails() -> None:
        async with consumer(embedded.namesrv) as reader:
            await take(reader, 5)
            async for _ in reader:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fails()
    async with PushConsumer("cg", {"Topic": "*"}, namesrv=embedded.namesrv, listener=listener):
        await eventually_trio(lambda: len(seen) >= 35, f"35 messages, seen {len(seen)}")
    assert len(seen) <= 35 + 5
    assert seen <= sent


def address(server: ServerProcess) -> str:
    return f"{server.namesrv[0]}:{server.namesrv[1]}"


@pytest.mark.parametrize("end", ["terminate", "kill"])
async def test_broker_restart_while_clients_go_on(
    tmp_path: Path, end: str, serve_apart: Callable[[Path], ServerProcess]
) -> None:
    """Sends that fail are repeated by the user; every acknowledged message arrives."""
    total = 120
    seen: Counter[bytes] = Counter()
    with await trio.to_thread.run_sync(serve_apart(tmp_path / "store").start) as server:
        middle = trio.Event()

        async def consume() -> None:
            async with consumer(address(server)) as reader:
                async for message in reader:
                    seen[message.body] += 1

        async def produce() -> None:
            async with Producer("pg", namesrv=address(server), send_timeout=1) as producer:
                for n in range(total):
                    if n == total // 2:
                        middle.set()
                    await until_sent(producer, Message("Topic", b"%04d" % n))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(consume)
            nursery.start_soon(produce)
            await middle.wait()
            await trio.to_thread.run_sync(getattr(server, end))
            await trio.to_thread.run_sync(server.start)
            await eventually_trio(lambda: len(seen) == total, "all messages arrived", 30)
            nursery.cancel_scope.cancel()
    assert set(seen) == {b"%04d" % n for n in range(total)}


async def until_sent(producer: Producer, message: Message) -> None:
    """Sends again until a broker has it."""
    with trio.fail_after(20):
        while True:
            try:
                await producer.send(message)
                return
            except PyrmqError as e:
                if not e.retriable:
                    raise
                await trio.sleep(0.02)


async def test_restart_on_new_ports_keeps_messages_and_offsets(tmp_path: Path) -> None:
    with await trio.to_thread.run_sync(ServerProcess(tmp_path / "store").start) as server:
        sent = await send_everywhere(address(server), 0, 20)
        async with consumer(address(server)) as reader:
            first = bodies(await take(reader, 12))
        await trio.to_thread.run_sync(lambda: server.restart(same_ports=False))
        async with consumer(address(server)) as reader:
            rest = bodies(await take(reader, 8))
    assert sorted(first + rest) == sorted(sent)


async def test_broker_gone_is_a_clear_error(
    tmp_path: Path, serve_apart: Callable[[Path], ServerProcess]
) -> None:
    with await trio.to_thread.run_sync(serve_apart(tmp_path / "store").start) as server:
        async with Producer("pg", namesrv=address(server)) as producer:
            result = await producer.send(Message("Topic", b"x"))
            await trio.to_thread.run_sync(server.terminate)
            for queue in (None, result.queue):
                with pytest.raises(ClientError, match=r"127.0.0.1:\d+.*(gone|refused)") as caught:
                    await producer.send(Message("Topic", b"x"), queue=queue)
                assert caught.value.retriable, f"servers may come back: {caught.value!r}"


async def test_name_server_not_there() -> None:
    async with Producer("pg", namesrv="127.0.0.1:1") as producer:
        with pytest.raises(ClientError, match=r"no name server.*127\.0\.0\.1:1"):
            await producer.send(Message("Topic", b"x"))


async def test_one_of_two_name_servers_is_enough(embedded: Running) -> None:
    async with Producer("pg", namesrv=f"127.0.0.1:1;{embedded.namesrv}") as producer:
        await producer.send(Message("Topic", b"x"))
    async with consumer(f"127.0.0.1:1;{embedded.namesrv}") as reader:
        assert bodies(await take(reader, 1)) == [b"x"]


async def test_a_consumer_without_servers_waits_and_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It goes on trying, as servers may come; a user sees why nothing happens."""
    async with consumer("127.0.0.1:1"):
        await eventually_trio(
            lambda: any(
                "127.0.0.1:1" in r.getMessage() and r.levelname in ("WARNING", "ERROR")
                for r in caplog.records
            ),
            "a warning that names the name server (INFO is not shown by default)",
            3,
        )


async def test_a_consumer_of_a_missing_topic_says_so(
    embedded: Running, caplog: pytest.LogCaptureFixture
) -> None:
    async with consumer(embedded.namesrv):
        await eventually_trio(
            lambda: any(
                "Topic" in r.getMessage() and r.levelname in ("WARNING", "ERROR")
                for r in caplog.records
            ),
            "a warning that names the topic (INFO is not shown by default)",
            3,
        )


async def test_error_tree() -> None:
    assert issubclass(ConnectError, ClientError)
    assert issubclass(ClientError, PyrmqError)
