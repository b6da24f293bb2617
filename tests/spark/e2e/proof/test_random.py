"""Random stores, selections and cuts against a plain walk over the bytes by pyrmq.model."""

from __future__ import annotations

import itertools
import tempfile
import zlib
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyrmq.engine import LogRange, Store, segment_advance, segment_end
from pyrmq.model.properties import encode_properties
from pyrmq.model.record import ReceivedMessage, decode_record
from tests.support.thorough import examples

from .native import files_of, read
from .rows import ALL, Row, assert_same

TOPICS = ["A", "B-long_name", "%RETRY%" + "g" * 150, "RMQ_SYS_TRANS_HALF_TOPIC"]
TAGS = [None, "TagA", "TagB", "AaAa", "BBBB", "标签"]
"""AaAa and BBBB have one hash."""
KEYS = [None, "k1", "k1 k2", "k 2 k12"]

messages = st.fixed_dictionaries(
    {
        "topic": st.sampled_from(TOPICS),
        "queue": st.integers(0, 2),
        "body": st.one_of(
            st.binary(max_size=40),
            st.sampled_from([b"\xda\xa3\x20\xa7" * 5, b"\0" * 600, b"copy", b"z" * 900]),
        ),
        "tags": st.sampled_from(TAGS),
        "keys": st.sampled_from(KEYS),
        "packed": st.booleans(),
        "flag": st.integers(-(2**31), 2**31 - 1),
        "born": st.sampled_from(["192.0.2.1:1", "[2001:db8::17]:65535"]),
        "more": st.dictionaries(
            st.text(st.characters(codec="utf-8", min_codepoint=3), min_size=1, max_size=5),
            st.text(st.characters(codec="utf-8", min_codepoint=3), max_size=5),
            max_size=2,
        ),
    }
)


def write(root: Path, wanted: list[dict[str, Any]]) -> None:
    store = Store(root, commit_log_file_size=4096, consume_queue_file_size=100, index_enable=False)
    last = b"\xda\xa3\x20\xa7"
    try:
        for one in wanted:
            body = last if one["body"] == b"copy" else one["body"]
            known = {"TAGS": one["tags"], "KEYS": one["keys"]}
            text = encode_properties(one["more"] | {k: v for k, v in known.items() if v})
            at, _, _, _ = store.put(
                one["topic"], one["queue"], zlib.compress(body) if one["packed"] else body or b"x",
                text, flag=one["flag"], sys_flag=0x301 if one["packed"] else 0,
                born_host=one["born"],
            )  # fmt: skip
            last = bytes(store.record_at(at) or b"")[:1200]
    finally:
        store.close()


def model(folder: Path) -> list[Row]:
    """Rows of a whole log: lengths lead from record to record."""
    found = []
    for path in sorted(folder.iterdir()):
        data, at = memoryview(path.read_bytes()), 0
        while at + 8 <= len(data) and data[at + 4 : at + 8] != b"\xcb\xd4\x31\x94":
            size = int.from_bytes(data[at : at + 4])
            if not size:
                break
            found.append(_row(decode_record(data[at : at + size]), data[at : at + size]))
            at += size
    return found


def _row(got: ReceivedMessage, data: memoryview) -> Row:
    stored = decode_record(data, inflate_body=False)
    text = encode_properties(got.properties)
    return {
        "topic": got.topic, "flag": got.flag, "body": got.body, "properties": got.properties,
        "brokerName": "b", "queueId": got.queue_id, "queueOffset": got.queue_offset,
        "bornTimestamp": got.born_timestamp, "storeTimestamp": got.store_timestamp,
        "tags": got.tags, "keys": got.properties.get("KEYS"),
        "commitLogOffset": got.commit_log_offset, "bodyLength": len(stored.body),
        "sysFlag": stored.sys_flag, "storeSize": got.store_size, "bodyCRC": got.body_crc,
        "reconsumeTimes": got.reconsume_times,
        "preparedTransactionOffset": got.prepared_transaction_offset, "msgId": got.offset_msg_id,
        "transactionId": got.transaction_id, "bornHost": got.born_host,
        "storeHost": got.store_host, "propertiesRaw": text,
    }  # fmt: skip


@settings(max_examples=examples(30), deadline=None, suppress_health_check=list(HealthCheck))
@given(wanted=st.lists(messages, min_size=1, max_size=60), data=st.data())
def test_any_store_any_selection_any_cut(wanted: list[dict[str, Any]], data: st.DataObject):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "store"
        write(root, wanted)
        rows = model(root / "commitlog")
        assert len(rows) == len(wanted)
        files = files_of(root / "commitlog")
        end, why = segment_end(files)
        assert (end, why) == (rows[-1]["commitLogOffset"] + rows[-1]["storeSize"], "")

        topics = data.draw(st.sets(st.sampled_from(TOPICS), min_size=1), "topics")
        ranges = data.draw(
            st.dictionaries(
                st.integers(-1, 2), st.tuples(st.integers(0, 20), st.integers(0, 60)), max_size=3
            ),
            "offsets by queue",
        )
        tags = data.draw(st.none() | st.lists(st.sampled_from(TAGS[1:]), min_size=1), "tags")
        key = data.draw(st.none() | st.sampled_from(["k1", "k", "2", "none"]), "key")
        times = sorted(row["storeTimestamp"] for row in rows)
        start_time = data.draw(st.sampled_from([-(2**63), *times]), "from")
        end_time = data.draw(st.sampled_from([2**63 - 1, *times]), "until")
        columns = data.draw(st.lists(st.sampled_from(ALL), unique=True, min_size=1), "columns")
        marks = data.draw(st.sets(st.integers(0, end), max_size=12), "cuts")

        def wanted_row(row: Row) -> bool:
            rule = ranges.get(row["queueId"], ranges.get(-1))
            return (
                row["topic"] in topics
                and (not ranges or (rule is not None and row["queueOffset"] in range(*rule)))
                and start_time <= row["storeTimestamp"] < end_time
                and (tags is None or row["tags"] in tags)
                and (key is None or key in (row["keys"] or "").split())
            )

        def rule(topic: str) -> bool | dict[int, tuple[int, int]]:
            return topic in topics and (ranges or True)

        found = []
        for start, stop in itertools.pairwise([0, *sorted(marks - {0, end}), end]):
            found += read(
                files, start, stop, columns=columns, broker_name="b", rule=rule, tags=tags,
                key=key, start_time=start_time, end_time=end_time,
                batch_rows=data.draw(st.sampled_from([1, 5, 10_000]), "batchRows"),
            )  # fmt: skip
        expected = [{n: row[n] for n in columns} for row in rows if wanted_row(row)]
        if "propertiesRaw" in columns:  # the model keeps no order of properties
            for row in found:
                row["propertiesRaw"] = sorted(row["propertiesRaw"].split("\x02"))
            for row in expected:
                row["propertiesRaw"] = sorted(row["propertiesRaw"].split("\x02"))
        assert_same(found, expected)

        start = data.draw(st.sampled_from([row["commitLogOffset"] for row in rows]), "advance from")
        limit = data.draw(st.integers(1, 30), "rows")
        to, count = segment_advance(LogRange(files, start, end), rule, max_rows=limit)
        inside = [r for r in rows if start <= r["commitLogOffset"] < to]
        chosen = [r for r in inside if r["topic"] in topics and _in(ranges, r)]
        assert count == len(chosen) <= limit
        rest = [r for r in rows if r["commitLogOffset"] >= to and r["topic"] in topics]
        assert to == end or count == limit or not rest or not all(_in(ranges, r) for r in rest)


def _in(ranges: dict[int, tuple[int, int]], row: Row) -> bool:
    rule = ranges.get(row["queueId"], ranges.get(-1))
    return not ranges or (rule is not None and row["queueOffset"] in range(*rule))
