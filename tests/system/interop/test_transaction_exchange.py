"""Transactions on one store directory that Apache RocketMQ and our broker open in turn.

Whoever comes second asks about what is pending, and about nothing that the first one has settled:
committed, rolled back, committed after a check, discarded. After it the first one finds nothing
left to ask about. Every change of hands leaves what is stored as it was.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.client import Client
from tests.support.records import Record
from tests.support.thorough import THOROUGH
from tests.support.waiting import eventually

from . import halves
from .halves import Check, Producer
from .store import cargo, peer
from .store.turns import Ours

GROUP = "PG-turns"
TOPIC = "Settled"
CONF = f"""\
{cargo.CONF}transactionTimeOut=1000
transactionCheckInterval=500
transactionCheckMax=1000
"""
PEER_CONF = "transactionOpBatchInterval=100\n"
OLD = 2000 * 3600
"""Seconds; Apache's broker discards a half at the first pass that was born so long ago."""
ONE_CHECK = CONF.replace("transactionCheckMax=1000", "transactionCheckMax=1")
COMMITTED = [f"committed{i}" for i in range(40)]
ROLLED_BACK = [f"rolled-back{i}" for i in range(40)]
ANSWERED = ["answered-commit", "answered-rollback"]
"""By a check."""
ASKED = [f"asked{i}" for i in range(4)]
"""Checked at least once, without a decision."""
PENDING = [f"pending{i}" for i in range(4)]
"""Not checked yet when the brokers change, or hardly."""
DISCARDED = "discarded"
Broker = Ours | peer.RealBroker


def decide(check: Check) -> int:
    """By the name; those with neither word by the number at its end."""
    if "back" in check.name:
        return halves.ROLLBACK
    if "commit" in check.name or check.name[-1] in "02468":
        return halves.COMMIT
    return halves.ROLLBACK


def decide_later(check: Check) -> int | None:
    return None if check.name in {*ASKED, *PENDING} else decide(check)


def first_turn(producer: Producer) -> dict[str, int]:
    """Every kind of history; what is left is pending. The places of halves in their queue."""
    every = {}
    for name in [*ASKED, *ANSWERED]:
        every[name] = producer.send(name, TOPIC)
    for commit, roll_back in zip(COMMITTED, ROLLED_BACK, strict=True):
        every[commit] = producer.send(commit, TOPIC)
        every[roll_back] = producer.send(roll_back, TOPIC)
        producer.end(every[commit], halves.COMMIT)
        producer.end(every[roll_back], halves.ROLLBACK)
    producer.settle(decide_later, until=[*ANSWERED, *ASKED])
    for name in PENDING:
        every[name] = producer.send(name, TOPIC)
    return {name: half.queue_offset for name, half in every.items()}


def start_with_one_discarded(broker: Broker) -> None:
    """Ours goes by its own clock and by checks that it has made."""
    if isinstance(broker, Ours):
        broker.conf = ONE_CHECK
        with broker, Producer(broker.address, GROUP) as producer:
            producer.send(DISCARDED, TOPIC)
            halves.await_stored(producer.client, halves.OVERFLOW, bool)
        broker.conf = CONF
        broker.start()
    else:
        broker.start()
        with Producer(broker.address, GROUP) as producer:
            producer.send(DISCARDED, TOPIC, age=OLD)


def await_committed(producer: Producer, names: Iterable[str]) -> Counter[str]:
    """Until all of them are there; how often each message is."""
    wanted = set(names)
    records = halves.await_stored(
        producer.client, TOPIC, lambda records: wanted <= set(halves.names(records))
    )
    return Counter(halves.names(records))


def await_progress(
    broker: peer.RealBroker,
    producer: Producer,
    say: Callable[[Check], int | None],
    places: dict[str, int],
) -> None:
    """Until Apache's broker has on disk that these halves are settled: it writes op records some
    time after the answer and may ask again before, none for the copies of a half before the last,
    and passes over those by its offset. A kill before that makes it, too, ask again."""
    path = broker.store / "config" / "consumerOffset.json"

    def look() -> tuple[set[int], int]:
        """Which halves or last copies of them are not settled, and how many are not passed over."""
        copies = {check.name: check.half.queue_offset for check in producer.answer(say)}
        last = {copies.get(name, place) for name, place in places.items()}
        progress = _progress(path)
        return last - halves.settled_offsets(producer.client), sum(at >= progress for at in last)

    what = "all are settled and passed over"
    eventually(look, what, halves.PATIENCE, until=lambda found: found == (set(), 0))


def _progress(path: Path) -> int:
    text = path.read_text() if path.exists() else ""  # its numbers are no JSON keys
    found = re.search(rf'"{halves.HALF}@CID_RMQ_SYS_TRANS":\{{\s*"?0"?\s*:\s*(\d+)', text)
    return int(found[1]) if found else -1


def everything(client: Client) -> dict[str, list[Record]]:
    topics = (TOPIC, halves.HALF, halves.OP, halves.OVERFLOW)
    return {topic: halves.stored(client, topic) for topic in topics}


def unchanged(before: dict[str, list[Record]], client: Client) -> None:
    for topic, records in before.items():
        assert halves.stored(client, topic)[: len(records)] == records, topic


def probe(producer: Producer, name: str) -> set[str]:
    """Commits one more message by a check: a pass has gone by. What was asked about so far."""
    producer.send(name, TOPIC)
    checks = producer.settle(decide, until=[name])
    await_committed(producer, [name])
    return {check.name for check in checks}


def exchange(order: str, how: str, folder: Path, namesrv: str) -> None:
    """Three turns; the first one ends as asked, the second one by a kill."""
    store = folder / "store"
    apache = peer.RealBroker(store, namesrv, CONF + PEER_CONF, home=folder / "apache")
    ours = Ours(store, conf=CONF)
    try:
        if order == "apache-ours":
            turns(apache, ours, how)
        else:
            turns(ours, apache, how)
    finally:
        apache.kill()
        ours.kill()


def turns(first: Broker, second: Broker, how: str) -> None:
    """Only ours has to deliver once what is asked about more than once."""
    committed = {*COMMITTED, "answered-commit"}
    start_with_one_discarded(first)
    with Producer(first.address, GROUP) as producer:
        places = first_turn(producer)
        times = await_committed(producer, committed)
        discarded = halves.await_stored(producer.client, halves.OVERFLOW, bool)
        assert halves.names(discarded) == [DISCARDED]
        if isinstance(first, peer.RealBroker):
            done = {n: places[n] for n in [*COMMITTED, *ROLLED_BACK, *ANSWERED]}
            await_progress(first, producer, decide_later, done)
            times = await_committed(producer, committed)
        else:
            assert set(times.values()) == {1}
        assert set(times) == committed
        before = everything(producer.client)
    if how == "clean":
        first.terminate()
    else:
        first.kill()

    committed |= {"asked0", "asked2", "pending0", "pending2", "probe0"}
    second.start()
    with Producer(second.address, GROUP) as producer:
        unchanged(before, producer.client)
        producer.settle(decide, until=[*ASKED, *PENDING])
        assert probe(producer, "probe0") == {*ASKED, *PENDING, "probe0"}
        asked = [check.times for check in producer.checks if check.name in ASKED]
        assert min(asked) > 1
        now = await_committed(producer, committed)
        if isinstance(second, peer.RealBroker):
            places = {c.name: c.half.queue_offset for c in producer.checks}
            await_progress(second, producer, decide, places)
            now = await_committed(producer, committed)
        else:
            assert {now[name] for name in committed - set(times)} == {1}
        assert set(now) == committed
        assert {name: now[name] for name in times} == times
        before = everything(producer.client)
    second.kill()

    first.start()
    with Producer(first.address, GROUP) as producer:
        unchanged(before, producer.client)
        assert probe(producer, "probe2") == {"probe2"}
        times = Counter(halves.names(halves.stored(producer.client, TOPIC)))
        assert {name: times[name] for name in now} == now
        assert set(times) == committed | {"probe2"}


ORDERS = ("apache-ours", "ours-apache")
HOWS = ("clean", "kill") if THOROUGH else ("kill",)
CASES = [(order, how) for order in ORDERS for how in HOWS]


@pytest.fixture(scope="module")
def exchanges(
    home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[tuple[str, str], Future[None]]]:
    """All of them at once: each does little but wait."""
    with peer.NameServer(home / "namesrv") as names, ThreadPoolExecutor(len(CASES)) as pool:
        folder = tmp_path_factory.mktemp("exchange")
        yield {
            case: pool.submit(exchange, *case, folder / "-".join(case), names.address)
            for case in CASES
        }


@pytest.mark.parametrize(("order", "how"), CASES)
def test_the_other_broker_goes_on(
    order: str, how: str, exchanges: dict[tuple[str, str], Future[None]]
) -> None:
    exchanges[order, how].result()
