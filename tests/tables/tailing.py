"""Stores that grow and lose their first files, and commits of what they have into a table: what the
tests of queries with the tail are made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyrmq
from pyrmq.engine import Store
from pyrmq.tables import schema as schemas
from pyrmq.tables.bodies.plan import BodyPlan
from pyrmq.tables.catalog import open_catalog
from pyrmq.tables.ends import ENDS, TOPIC, Anchor, Ends, QueueEnd, ends_of
from tests.segments.making import as_rows
from tests.support.records import decode_record, encode_properties

SEGMENT = 64 << 10
"""Bytes of a log file: a few hundred messages."""
QUEUE_SEGMENT = 20 * 300
BLANK = bytes.fromhex("cbd43194")
"""Magic of what fills a log file up."""
ORDERS = "orders"
TABLE = "mq.orders"
Key = tuple[str, int, int]
KEY = ("brokerName", "queueId", "queueOffset")


class Log:
    """An open store that knows what it was given."""

    def __init__(self, root: Path, broker: str = "b", queues: int = 3) -> None:
        self.root, self.broker, self.queues = root, broker, queues
        root.mkdir(parents=True, exist_ok=True)
        (root / "config").mkdir(exist_ok=True)
        self.sent: dict[Key, bytes] = {}
        self.numbers = 0
        self.store = self._opened()

    def _opened(self) -> Store:
        return Store(
            self.root,
            commit_log_file_size=SEGMENT,
            consume_queue_file_size=QUEUE_SEGMENT,
            store_host="127.0.0.1:10911",
        )

    def put(self, count: int, queue: int | None = None, body: bytes | None = None) -> None:
        for _ in range(count):
            number = self.numbers
            self.numbers += 1
            at = number % self.queues if queue is None else queue
            text = b'{"n": %d}' % number if body is None else body
            properties = encode_properties(
                {"TAGS": "ABC"[number // 3 % 3], "KEYS": f"key-{number}", "n": str(number)}
            )
            _, _, offset, _ = self.store.put(ORDERS, at, text, properties, born_timestamp=number)
            self.sent[self.broker, at, offset] = text
            other = encode_properties({})
            if number % 5 == 0:
                self.store.put("payments", 0, b"other", other, born_timestamp=number)

    def delete_first_files(self, count: int) -> int:
        """What retention does: removes the first log files, never the last one. Queue files that
        lead only there stay, as they do until the next pass. Gives how many it removed."""
        self.store.close()
        files = sorted(p for p in (self.root / "commitlog").iterdir() if p.name.isdigit())
        gone = files[: min(count, len(files) - 1)]
        for file in gone:
            file.unlink()
        self.store = self._opened()
        return len(gone)

    def make_topic_anew(self, end: int) -> None:
        """As Apache RocketMQ's brokers delete a topic: its queues begin at 0 again, and the old
        messages stay in the log. `end`: the end of each queue when it was deleted. Closes the
        store."""
        self.store.close()
        for file in (self.root / "commitlog").iterdir():
            data = bytearray(file.read_bytes())
            at = 0
            while size := int.from_bytes(data[at : at + 4], "big"):
                if data[at + 4 : at + 8] == BLANK:
                    break
                record = decode_record(bytes(data[at : at + size]))
                if record.topic == ORDERS and record.queue_offset >= end:
                    offset = record.queue_offset - end
                    data[at + 20 : at + 28] = offset.to_bytes(8, "big")
                at += size
            file.write_bytes(data)
        for file in (self.root / "consumequeue" / ORDERS).rglob("0*"):
            if file.is_file():
                entries = file.read_bytes()
                file.write_bytes(entries[20 * end :] + bytes(20 * end))

    def kept(self) -> set[Key]:
        """What is in the log, by a scan of it."""
        rows = pyrmq.scan(
            self.root, topic=ORDERS, broker_names=[self.broker], columns=KEY, plan="scan"
        ).to_arrow()
        return set(keys(rows))

    def close(self) -> None:
        self.store.close()


@pytest.fixture(name="log")
def open_log(tmp_path: Path) -> Iterator[Log]:
    """A log without messages. A test file imports this function to have `log`."""
    made = Log(tmp_path / "store")
    yield made
    made.close()


@pytest.fixture(name="catalog")
def catalog_folder(tmp_path: Path) -> Path:
    """Where `commit` makes a catalog. A test file imports this function to have `catalog`."""
    return tmp_path / "catalog"


def commit(
    catalog: Path,
    stores: Sequence[Path],
    *,
    broker_names: Sequence[str] = ("b",),
    columns: Sequence[str] = (),
    most: int | None = None,
    partition: str = "none",
    fail: bool = True,
    bodies: BodyPlan | None = None,
) -> int:
    """Adds what the table does not have: at most so many messages of each queue. Gives the number
    of rows. It is written from the contract of a commit, not with the job."""
    opened = open_catalog(str(catalog), create=True)
    arrow = schemas.message_schema(schemas.columns_of(columns))
    table = opened.find(TABLE)
    if table is None:
        made = schemas.iceberg_schema(arrow if bodies is None else bodies.columns(arrow))
        spec = schemas.partition_spec(schemas.parse_partition(partition), made)
        properties = {TOPIC: ORDERS, **({} if bodies is None else bodies.properties())}
        table = opened.create(TABLE, made, partition_spec=spec, properties=properties)
    ends = ends_of(table) or Ends(ORDERS)
    scan = pyrmq.scan(
        list(stores),
        topic=ORDERS,
        broker_names=list(broker_names),
        columns=arrow.names,
        starting_offsets=ends.offsets() if ends.brokers else "earliest",
        fail_on_data_loss=fail,
    )
    rows = scan.to_arrow()
    found = keys(rows)
    first: dict[tuple[str, int], int] = {}
    kept = []
    for at, (broker, queue, offset) in enumerate(found):
        begin = first.setdefault((broker, queue), offset)
        if most is None or offset < begin + most:
            kept.append(at)
    rows = rows.take(pa.array(kept, pa.int64()))
    if not rows.num_rows:
        return 0
    added: dict[str, dict[int, QueueEnd]] = {}
    places = rows.column("commitLogOffset").to_pylist()
    times = rows.column("storeTimestamp").cast(pa.int64()).to_pylist()
    for at, row in enumerate(kept):
        broker, queue, offset = found[row]
        old = added.get(broker, {}).get(queue)
        added.setdefault(broker, {})[queue] = QueueEnd(
            offset if old is None else old.start,
            offset + 1,
            Anchor(offset, places[at], times[at] // 1000),
        )
    text = ends.plus(added).to_json()
    if bodies is not None:
        staged = [part.good for batch in rows.to_batches() for part in bodies.stage(batch)]
        rows = pa.Table.from_batches(staged)
    with table.transaction() as transaction:
        transaction.append(rows, snapshot_properties={ENDS: text, TOPIC: ORDERS})
        transaction.set_properties({ENDS: text, TOPIC: ORDERS})
    return rows.num_rows


def keys(table: Any) -> list[Key]:
    """Of a pyarrow.Table."""
    return as_rows(table, KEY)
