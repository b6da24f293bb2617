"""`pyrmq.table`: a table and the log behind it, each message once."""

from __future__ import annotations

import dataclasses
import json
import pickle
import shutil
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pyrmq
from pyrmq.errors import DataLossError, SegmentOptionError
from pyrmq.tables import stored
from pyrmq.tables.bodies.plan import BodyPlan
from pyrmq.tables.bodies.spec import spec as body_spec
from pyrmq.tables.catalog import open_catalog
from pyrmq.tables.compact import compact
from pyrmq.tables.errors import CatalogError, TableError, TableSchemaError, TableStoreError
from pyrmq.tables.history import TableScan, table
from tests.tables.tailing import TABLE, Log, commit, keys
from tests.tables.tailing import catalog_folder as catalog_folder
from tests.tables.tailing import open_log as open_log


def scan(log: Log, catalog: Path, **more: Any) -> TableScan:
    return table(TABLE, log.root, **{"catalog": catalog, "broker_names": [log.broker], **more})


def bodies(read: pa.Table) -> dict[Any, bytes]:
    found = keys(read)
    assert len(set(found)) == len(found), "a message is there twice"
    return dict(zip(found, read.column("body").to_pylist(), strict=True))


def test_each_message_once(log: Log, catalog: Path) -> None:
    log.put(1000)
    commit(catalog, [log.root])
    log.put(500)
    assert bodies(scan(log, catalog).to_arrow()) == log.sent
    commit(catalog, [log.root], most=60)  # some of what was the tail
    log.put(10)
    assert bodies(scan(log, catalog).to_arrow()) == log.sent


def test_the_columns_are_those_of_a_scan(log: Log, catalog: Path) -> None:
    log.put(100)
    commit(catalog, [log.root])
    log.put(100)
    found = scan(log, catalog)
    names = found.schema.names
    expected = pyrmq.scan(log.root, topic="orders", broker_names=["b"], columns=names).to_arrow()
    order = [("brokerName", "ascending"), ("queueId", "ascending"), ("queueOffset", "ascending")]
    assert found.to_arrow().sort_by(order) == expected.sort_by(order)
    narrow = scan(log, catalog, columns=["queueOffset", "tags"])
    assert narrow.to_arrow().schema.names == ["queueOffset", "tags"]
    assert narrow.to_arrow().num_rows == 200


def test_a_scan_is_pinned(log: Log, catalog: Path) -> None:
    log.put(300)
    commit(catalog, [log.root])
    log.put(200)
    found = scan(log, catalog)
    before = dict(log.sent)
    log.put(100)
    commit(catalog, [log.root])
    log.put(50)
    for _ in range(2):
        assert bodies(found.to_arrow()) == before
    assert bodies(scan(log, catalog).to_arrow()) == log.sent


@pytest.mark.parametrize("partition", ["none", "queue,broker"])
def test_rows_are_left_out_in_both_halves(log: Log, catalog: Path, partition: str) -> None:
    log.put(700)
    commit(catalog, [log.root], most=150, partition=partition)
    commit(catalog, [log.root], most=30)
    log.put(400)
    whole = scan(log, catalog).to_arrow()
    times = sorted(whole.column("storeTimestamp").cast(pa.int64()).to_pylist())
    middle = times[len(times) // 2] // 1000
    moment = datetime.fromtimestamp(middle / 1000, UTC)
    at = {name: pc.field(name) for name in whole.schema.names}
    micros = at["storeTimestamp"].cast(pa.int64())
    for chosen, condition in (
        ({"queues": [1]}, at["queueId"] == 1),
        (
            {"queues": [0, 2], "tags": "A || C"},
            at["queueId"].isin([0, 2]) & at["tags"].isin(["A", "C"]),
        ),
        ({"tags": ["B"]}, at["tags"] == "B"),
        ({"start_time": middle, "end_time": middle}, at["queueId"] < 0),
        ({"offsets": (100, 200)}, (at["queueOffset"] >= 100) & (at["queueOffset"] < 200)),
        ({"offsets": (None, 10)}, at["queueOffset"] < 10),
        ({"offsets": (10**12, None)}, at["queueOffset"] < 0),
        ({"start_time": middle}, micros >= middle * 1000),
        ({"end_time": moment}, micros < middle * 1000),
        ({"start_time": middle, "end_time": middle + 1}, micros == middle * 1000),
        ({"start_time": -(2**63), "end_time": 2**63 - 1}, at["queueId"] >= 0),
        ({"brokers": ["b"]}, at["queueId"] >= 0),
        ({"brokers": ["other"]}, at["queueId"] < 0),
    ):
        found = scan(log, catalog, **chosen)
        assert bodies(found.to_arrow()) == bodies(whole.filter(condition)), chosen
        narrow = scan(log, catalog, columns=["bornTimestamp"], **chosen).to_arrow()
        assert sorted(narrow.column(0).to_pylist()) == sorted(
            whole.filter(condition).column("bornTimestamp").to_pylist()
        ), chosen


def test_files_without_wanted_rows_are_not_read(log: Log, catalog: Path) -> None:
    log.put(300)
    commit(catalog, [log.root], partition="queue")
    log.put(30)
    all_files = [p for p in scan(log, catalog).parts if hasattr(p, "path")]
    some = [p for p in scan(log, catalog, queues=[1]).parts if hasattr(p, "path")]
    assert (len(all_files), len(some)) == (3, 1)
    assert not [p for p in scan(log, catalog, offsets=(105, None)).parts if hasattr(p, "path")]


def test_libraries_read_it(log: Log, catalog: Path) -> None:
    duckdb, polars = pytest.importorskip("duckdb"), pytest.importorskip("polars")
    log.put(200)
    commit(catalog, [log.root])
    log.put(100)
    found = scan(log, catalog)
    assert pa.table(found).num_rows == 300
    assert polars.DataFrame(found).height == 300
    lazy = found.to_polars()
    assert lazy.select(polars.len()).collect().item() == 300
    few = lazy.filter(polars.col("queueOffset") >= 90).select("queueId", "queueOffset").collect()
    assert sorted(few.rows()) == sorted((q, o) for _, q, o in log.sent if o >= 90)
    assert lazy.head(7).collect().height == 7
    nothing = scan(log, catalog, brokers=["other"]).to_polars()
    assert nothing.select("queueId").collect().height == 0
    with duckdb.connect() as connection:
        relation = found.to_duckdb(connection)
        for _ in range(2):
            assert relation.aggregate("count(*), count(distinct queueOffset)").fetchall() == [
                (300, 100)
            ]
    assert sum(batch.num_rows for batch in found.to_reader()) == 300


def test_parts_travel(log: Log, catalog: Path) -> None:
    log.put(200)
    commit(catalog, [log.root])
    log.put(100)
    parts = pickle.loads(pickle.dumps(scan(log, catalog).parts))
    read = pa.Table.from_batches([batch for part in parts for batch in part.read()])
    assert bodies(read) == log.sent


def test_a_table_without_a_commit(log: Log, catalog: Path) -> None:
    log.put(100)
    with pytest.raises(CatalogError, match="has no"):
        scan(log, catalog)
    commit(catalog, [log.root])
    other = open_catalog(str(catalog))
    schema = other.load(TABLE).schema()
    other.create("mq.empty", schema, properties={"pyrmq.topic": "orders"})
    empty = table("mq.empty", log.root, catalog=other, broker_names=["b"])
    assert bodies(empty.to_arrow()) == log.sent
    assert empty.snapshot_id is None
    other.create("mq.foreign", schema)
    with pytest.raises(TableSchemaError, match="was not made by pyrmq"):
        table("mq.foreign", log.root, catalog=other)


def test_retention_behind_the_ends(log: Log, catalog: Path) -> None:
    log.put(900)
    commit(catalog, [log.root])
    assert log.delete_first_files(3) == 2
    assert bodies(scan(log, catalog).to_arrow()) == log.sent
    log.put(900)
    commit(catalog, [log.root])
    assert log.delete_first_files(2) == 2
    assert bodies(scan(log, catalog).to_arrow()) == log.sent


def test_retention_while_the_log_is_looked_at(
    log: Log, catalog: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files were listed, and then those are deleted that have the table's last messages."""
    log.put(300)
    commit(catalog, [log.root])
    log.put(1500)
    import pyrmq.tables.tail as module

    real, calls = module.identity.check, []

    def meanwhile(*given: Any) -> None:
        if not calls:
            log.delete_first_files(3)
        calls.append(1)
        real(*given)

    monkeypatch.setattr(module.identity, "check", meanwhile)
    with pytest.raises(DataLossError, match="offset 100 of topic orders"):
        scan(log, catalog)
    assert len(calls) == 2


def test_what_retention_deleted_first_is_an_error(log: Log, catalog: Path) -> None:
    log.put(300)
    commit(catalog, [log.root])
    log.put(1500)
    assert log.delete_first_files(3) == 3
    with pytest.raises(
        DataLossError,
        match=r"offset 100 of topic orders, broker b, queue \d is deleted: it holds \d+ to 600",
    ):
        scan(log, catalog)
    rest = bodies(scan(log, catalog, fail_on_data_loss=False).to_arrow())
    assert rest.items() < log.sent.items()
    assert {key for key in log.sent if key[2] < 100} <= rest.keys()


def test_a_table_that_is_loaded_anew_has_what_was_deleted(
    log: Log, catalog: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the load of the table and the look at the log another commit comes, and retention."""
    log.put(300)
    commit(catalog, [log.root])
    log.put(1500)
    import pyrmq.tables.history as module

    real, calls = module.open_stores, []

    def meanwhile(*given: Any) -> Any:
        if not calls:
            commit(catalog, [log.root])
            log.delete_first_files(3)
        calls.append(1)
        return real(*given)

    monkeypatch.setattr(module, "open_stores", meanwhile)
    assert bodies(scan(log, catalog).to_arrow()) == log.sent
    assert len(calls) == 2


def test_a_new_queue(log: Log, catalog: Path) -> None:
    log.put(300)
    commit(catalog, [log.root])
    log.put(300, queue=7)
    assert bodies(scan(log, catalog).to_arrow()) == log.sent
    log.put(1500, queue=0)
    assert log.delete_first_files(3) == 3
    with pytest.raises(DataLossError, match="queue"):
        scan(log, catalog)


def test_a_new_queue_whose_first_messages_are_deleted(log: Log, catalog: Path) -> None:
    log.put(300)
    commit(catalog, [log.root])
    first = dict(log.sent)
    log.put(600, queue=7)
    # The queues of the table still are where it ends.
    assert log.delete_first_files(2) == 2
    with pytest.raises(DataLossError, match="offset 0 of topic orders, broker b, queue 7"):
        scan(log, catalog)
    assert first.keys() < set(keys(scan(log, catalog, fail_on_data_loss=False).to_arrow()))
    assert set(keys(scan(log, catalog, queues=[0, 1, 2]).to_arrow())) == first.keys()


def test_a_queue_that_was_empty_when_the_table_began(log: Log, catalog: Path) -> None:
    """What was deleted before the table has no gap to it."""
    log.put(50, queue=7)
    log.put(900)
    assert log.delete_first_files(1) == 1
    there = log.kept()
    assert not {key for key in there if key[1] == 7}
    commit(catalog, [log.root])
    log.put(200)
    log.put(3, queue=7)
    wanted = there | {key for key in log.sent if key not in there and key[2] >= 300}
    wanted |= {("b", 7, offset) for offset in (50, 51, 52)}
    assert set(bodies(scan(log, catalog).to_arrow())) == wanted
    alone = bodies(scan(log, catalog, queues=[7]).to_arrow())
    assert set(alone) == {key for key in wanted if key[1] == 7}


def test_a_store_that_was_made_anew(log: Log, catalog: Path, tmp_path: Path) -> None:
    log.put(300)
    commit(catalog, [log.root])
    for count in (30, 300, 900):
        anew = Log(tmp_path / f"anew-{count}")
        anew.put(count, body=b"another")
        with pytest.raises(TableStoreError) as caught:
            scan(anew, catalog)
        text = str(caught.value)
        for part in ("of the commit log", str(anew.root), "was made anew"):
            assert part in text
        anew.close()


def test_a_topic_that_was_made_anew_in_the_same_log(log: Log, catalog: Path) -> None:
    """The old messages are still in the log, where the table says, and the new ones are more."""
    log.put(30)
    commit(catalog, [log.root])
    log.put(90, body=b"another")
    log.make_topic_anew(10)
    with pytest.raises(TableStoreError, match=r"at offset 9 is at .* another one there"):
        scan(log, catalog)


def test_a_snapshot_that_an_expiry_deletes_meanwhile(
    log: Log, catalog: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.put(30)
    commit(catalog, [log.root])
    plan, left = stored.parts, [1]

    def gone(*asked: Any) -> Any:
        if left:
            left.pop()
            raise FileNotFoundError("Cannot open file, does not exist: s3://a/b")  # of pyiceberg
        return plan(*asked)

    monkeypatch.setattr(stored, "parts", gone)
    assert bodies(scan(log, catalog).to_arrow()) == log.sent
    assert not left


def test_a_log_that_lost_its_end(log: Log, catalog: Path, tmp_path: Path) -> None:
    log.put(300)
    shutil.copytree(log.root, tmp_path / "older")
    log.put(30)
    commit(catalog, [log.root])
    with pytest.raises(TableStoreError, match="no message begins there"):
        table(TABLE, tmp_path / "older", catalog=catalog, broker_names=["b"])


def test_a_store_that_is_not_local(log: Log, catalog: Path) -> None:
    """It has no queue files here, which would say what is deleted."""
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")

    def afar(**more: Any) -> dict[Any, bytes]:
        for path in sorted((log.root / "commitlog").iterdir()):
            memory.pipe_file(f"/bucket/b/commitlog/{path.name}", path.read_bytes())
        try:
            place = "memory://bucket/b"
            found = table(TABLE, place, catalog=catalog, broker_names=["b"], **more)
            return bodies(found.to_arrow())
        finally:
            memory.rm("/bucket", recursive=True)

    log.put(900)
    commit(catalog, [log.root])
    log.put(300)
    assert afar() == log.sent
    assert log.delete_first_files(2) == 2
    assert afar() == log.sent
    log.put(900)
    assert log.delete_first_files(2) == 2
    with pytest.raises(
        DataLossError, match=r"offset 300 of topic orders, broker b, queue \d is del"
    ):
        afar()
    rest = afar(fail_on_data_loss=False)
    assert rest.items() < log.sent.items()
    anew = Log(log.root.with_name("anew"))
    anew.put(900, body=b"another")
    log.root, root = anew.root, log.root
    with pytest.raises(TableStoreError, match="was made anew"):
        afar()
    log.root = root
    anew.close()


def test_a_topic_that_was_deleted(log: Log, catalog: Path, tmp_path: Path) -> None:
    log.put(300)
    commit(catalog, [log.root])
    shutil.copytree(log.root, tmp_path / "without")
    shutil.rmtree(tmp_path / "without" / "consumequeue" / "orders")
    with pytest.raises(TableStoreError, match="more than"):
        table(TABLE, tmp_path / "without", catalog=catalog, broker_names=["b"])


def test_two_brokers(log: Log, catalog: Path, tmp_path: Path) -> None:
    other = Log(tmp_path / "other", broker="c")
    log.put(200)
    other.put(100)
    both = {"broker_names": ["b", "c"]}
    commit(catalog, [log.root, other.root], **both)  # type: ignore[arg-type]
    committed = dict(other.sent)
    other.put(70)
    log.put(20)
    whole = table(TABLE, [log.root, other.root], catalog=catalog, **both)  # type: ignore[arg-type]
    assert bodies(whole.to_arrow()) == {**log.sent, **other.sent}
    with pytest.raises(TableStoreError, match="broker c, and no store of it is given"):
        scan(log, catalog)
    assert bodies(scan(log, catalog, brokers=["b"]).to_arrow()) == log.sent
    rest = bodies(scan(log, catalog, fail_on_data_loss=False).to_arrow())
    assert rest == {**log.sent, **committed}
    with pytest.raises(SegmentOptionError, match="b"):
        table(TABLE, [log.root, log.root], catalog=catalog, broker_names=["b", "b"])
    other.close()


def test_rows_that_another_program_deleted(log: Log, catalog: Path) -> None:
    """A delete of pyiceberg writes files anew: the rows of the tail stay."""
    log.put(300)
    commit(catalog, [log.root])
    log.put(100)
    found = scan(log, catalog)
    opened = open_catalog(str(catalog)).load(TABLE)
    opened.delete("queueId = 1")
    now = bodies(scan(log, catalog).to_arrow())
    assert now == {k: body for k, body in log.sent.items() if k[1] != 1 or k[2] >= 100}
    assert bodies(found.to_arrow()) == log.sent


def test_delete_files_of_another_program(log: Log, catalog: Path, tmp_path: Path) -> None:
    """pyiceberg writes none: this one is made by hand, by Iceberg's specification."""
    from pyarrow import parquet
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.table import FileScanTask
    from pyiceberg.typedef import Record

    log.put(60)
    commit(catalog, [log.root])
    for chosen, left in (({}, 57), ({"queues": [1]}, 19)):
        (part,) = scan(log, catalog, **chosen).parts
        ids = {"file_path": "2147483546", "pos": "2147483545"}
        kinds = {"file_path": pa.string(), "pos": pa.int64()}
        schema = pa.schema(
            [pa.field(n, kinds[n], False, {"PARQUET:field_id": ids[n]}) for n in kinds]
        )
        places = tmp_path / "deletes.parquet"
        rows = {"file_path": [part.path] * 3, "pos": [0, 1, 59]}
        parquet.write_table(pa.table(rows, schema), places)
        deletes = DataFile.from_args(
            content=DataFileContent.POSITION_DELETES,
            file_path=f"file://{places}",
            file_format=FileFormat.PARQUET,
            partition=Record(),
            record_count=3,
            file_size_in_bytes=places.stat().st_size,
        )
        task = FileScanTask(part.task.file, {deletes})
        read = pa.Table.from_batches(dataclasses.replace(part, task=task).read())
        whole = pa.Table.from_batches(part.read())
        assert read.num_rows == left
        assert read.schema == whole.schema
        assert set(keys(read)) < set(keys(whole))


def test_added_columns_are_null(log: Log, catalog: Path) -> None:
    log.put(100)
    commit(catalog, [log.root])
    opened = open_catalog(str(catalog)).load(TABLE)
    from pyiceberg.types import LongType

    with opened.update_schema() as update:
        update.add_column("amount", LongType())
        update.rename_column("keys", "words")
    log.put(10)
    read = scan(log, catalog).to_arrow()
    assert read.column("amount").null_count == 110
    assert read.column("words").null_count == 10
    assert scan(log, catalog, columns=["amount"]).to_arrow().num_rows == 110


def test_bodies_are_decoded_as_in_the_table(log: Log, catalog: Path, tmp_path: Path) -> None:
    schema = tmp_path / "order.json"
    schema.write_text('{"type": "object", "properties": {"n": {"type": "integer"}}}')
    plan = BodyPlan(body_spec("json", [str(schema)]))
    log.put(90)
    log.put(1, body=b"no JSON")
    commit(catalog, [log.root], bodies=plan)
    log.put(60)
    found = scan(log, catalog)
    assert "body" not in found.schema.names
    read = pickle.loads(pickle.dumps(found.parts))
    for batches in (found.to_reader(), [b for part in read for b in part.read()]):
        rows = pa.Table.from_batches(batches)
        values = dict(zip(keys(rows), rows.column("value").to_pylist(), strict=True))
        fits = {key: body for key, body in log.sent.items() if body != b"no JSON"}
        assert values == {key: json.loads(body) for key, body in fits.items()}
    log.put(1, queue=2, body=b"again no JSON")
    with pytest.raises(TableError, match=r"does not fit its schema: .*brokerName b, queueId 2"):
        scan(log, catalog).to_arrow()
    with pytest.raises(TableError, match="does not fit"):  # whatever the columns: it is no row
        scan(log, catalog, columns=["queueId"]).to_arrow()
    assert scan(log, catalog, on_error="skip").to_arrow().num_rows == 150
    assert scan(log, catalog, on_error="skip", columns=["queueId"]).to_arrow().num_rows == 150
    with pytest.raises(SegmentOptionError, match="on_error"):
        scan(log, catalog, on_error="perhaps")


def test_fields_inside_of_a_column_are_those_of_the_table(
    log: Log, catalog: Path, tmp_path: Path
) -> None:
    """A field that was dropped and added again under its name is another one: it is null in files
    from before. A wider type is read as that."""
    from pyiceberg.types import LongType

    schema = tmp_path / "order.json"
    number = {"type": "integer", "format": "int32"}
    schema.write_text(json.dumps({"type": "object", "properties": {"n": number, "m": number}}))
    log.put(30)
    commit(catalog, [log.root], bodies=BodyPlan(body_spec("json", [str(schema)])))
    opened = open_catalog(str(catalog)).load(TABLE)
    with opened.update_schema(allow_incompatible_changes=True) as update:
        update.update_column("value.n", LongType())
    values = scan(log, catalog, columns=["value"]).to_arrow().column("value").to_pylist()
    assert sorted(value["n"] for value in values) == list(range(30))
    with opened.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("value.n")
    with opened.update_schema(allow_incompatible_changes=True) as update:
        update.add_column(("value", "n"), LongType())
    values = scan(log, catalog, columns=["value"]).to_arrow().column("value").to_pylist()
    assert values == [{"m": None, "n": None}] * 30


def test_bad_input(log: Log, catalog: Path) -> None:
    log.put(10)
    commit(catalog, [log.root], columns=["body"])
    for more, error, text in (
        ({"columns": ["nothing"]}, TableSchemaError, "has no columns nothing"),
        ({"columns": ["body", "body"]}, TableSchemaError, "each column once"),
        ({"tags": "A"}, TableError, "has no column tags"),
        ({"queues": [-1]}, SegmentOptionError, "queues"),
        ({"offsets": (-5, None)}, SegmentOptionError, "offsets"),
        ({"offsets": (5,)}, SegmentOptionError, "are not two"),
        ({"columns": "body"}, SegmentOptionError, "expected a list"),
        ({"tags": []}, SegmentOptionError, "tags"),
        ({"start_time": datetime(2026, 1, 1)}, SegmentOptionError, "start_time"),
        ({"name_server": "127.0.0.1:9876"}, SegmentOptionError, "nameServer"),
    ):
        with pytest.raises(error, match=text):
            scan(log, catalog, **more)
    with pytest.raises(SegmentOptionError, match="store"):
        table(TABLE, catalog=catalog)
    with pytest.raises(CatalogError):
        table("orders", log.root, catalog=catalog)
    with pytest.raises(SegmentOptionError, match="threads"):
        scan(log, catalog).to_arrow(threads=0)


def test_a_file_that_is_gone(log: Log, catalog: Path) -> None:
    log.put(10)
    commit(catalog, [log.root])
    found = scan(log, catalog)
    for path in (catalog / "warehouse").rglob("*.parquet"):
        path.unlink()
    with pytest.raises(TableError, match="was deleted before it was read"):
        found.to_arrow()


def test_queries_while_commits_happen(log: Log, catalog: Path) -> None:
    """Each query has all that was sent before it, each message once, whatever is committed and
    compacted meanwhile."""
    log.put(100)
    commit(catalog, [log.root])
    done = threading.Event()
    failed: list[BaseException] = []

    def writes() -> None:
        try:
            for number in range(5):
                log.put(100)
                commit(catalog, [log.root], most=40)
                if number % 3 == 2:
                    compact(open_catalog(str(catalog)).load(TABLE), files=2)
        except BaseException as error:
            failed.append(error)
        finally:
            done.set()

    writer = threading.Thread(target=writes)
    writer.start()
    queries = 0
    while not done.is_set() or not queries:
        before = set(log.sent)
        found = keys(
            scan(log, catalog, columns=["brokerName", "queueId", "queueOffset"]).to_arrow()
        )
        assert len(found) == len(set(found))
        assert before <= set(found)
        queries += 1
    writer.join()
    assert not failed
    assert bodies(scan(log, catalog).to_arrow()) == log.sent
