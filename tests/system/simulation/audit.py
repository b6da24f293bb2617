"""The end of a run: late words about what was discarded, and then the log is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyrmq.engine import Transactions
from tests.store.tools import read_queue
from tests.support.records import Record
from tests.support.transactions import COMMIT, HALF_TOPIC, OP_TOPIC, OVERFLOW_TOPIC, Half
from tests.system.simulation.broker import Life
from tests.system.simulation.model import Broken, Kind

if TYPE_CHECKING:
    from tests.system.simulation.simulation import Simulation


async def late_ends(sim: Simulation, life: Life) -> None:
    """A word about what was discarded still counts, once."""
    life.settle_flush()
    discarded = read_queue(life.store, OVERFLOW_TOPIC, 0)
    halves = read_queue(life.store, HALF_TOPIC, 0)
    producer = sim.producers[0]
    for transaction in sim.model.transactions.values():
        if transaction.kind is Kind.MUTE and sim.random.random() < 0.5:
            transaction.decide(COMMIT)
    for body in dict.fromkeys(r.body for r in discarded):
        transaction = sim.model.transactions[sim.model.chain(body).key]
        if transaction.forgotten or transaction.decision is None:
            continue
        half = sim.random.choice([r for r in halves if r.body == body])
        for _ in range(2):
            sim.count("late")
            code = await producer.commit(
                known(half), transaction.decision, from_check=sim.random.random() < 0.5
            )
            if code != 0:
                raise Broken(f"late word about {body!r}: answer {code}")


def audit(sim: Simulation, life: Life) -> None:
    """The log is read, and the store opened once more."""
    life.check_counts()
    for _ in range(2):
        life.flush()
        life.service.note_progress()
    life.save()
    halves = read_queue(life.store, HALF_TOPIC, 0)
    ops = [int(n) for r in read_queue(life.store, OP_TOPIC, 0) for n in named(r)]
    messages = [
        record
        for topic in sim.settings.topics
        for queue in range(4)
        for record in read_queue(life.store, topic, queue)
    ]
    discarded = read_queue(life.store, OVERFLOW_TOPIC, 0)
    unnamed = sorted({r.queue_offset for r in halves} - set(ops))
    if unnamed:
        raise Broken(f"no op record names the settled halves {unnamed}")
    sim.model.check(halves, messages, discarded)
    sim.count("runs")
    for what, n in (("halves", halves), ("delivered", messages), ("discarded", discarded)):
        sim.counts[what] = len(n)
    offsets = [life.offsets.query(t, "CID_RMQ_SYS_TRANS", 0) for t in (HALF_TOPIC, OP_TOPIC)]
    kept = [-1 if offset is None else offset for offset in offsets]
    again = Transactions(life.store.native, half_offset=kept[0], op_offset=kept[1])
    rebuilt = again.rebuilt()
    if rebuilt["pending"] or rebuilt["halves"] > 0:
        raise Broken(f"all is settled, and a restart from {kept} looks at {rebuilt}")


def known(record: Record) -> Half:
    """A half as a producer that was asked about it knows it."""
    properties = record.properties
    return Half(
        group=properties["PGROUP"],
        unique_key=properties["UNIQ_KEY"],
        queue_id=record.queue_id,
        queue_offset=record.queue_offset,
        phys=record.physical_offset,
        offset_msg_id=record.offset_msg_id,
        transaction_id=properties["UNIQ_KEY"],
    )


def named(record: Record) -> list[str]:
    return [n for n in record.body.decode().split(",") if n]
