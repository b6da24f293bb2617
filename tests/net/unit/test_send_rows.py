"""`SendRows`: record batches from Python as send requests, whatever their form in memory."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrmq.engine import SendRequest, SendRows
from pyrmq.errors import MessageIllegalError
from tests.support.records import decode_properties

pa = pytest.importorskip("pyarrow")
TEXT = st.text(
    st.characters(exclude_characters="\0\x01\x02", exclude_categories=["Cs"]), max_size=9
)
Row = dict[str, Any]


def send(batch: Any, **options: Any) -> list[SendRequest]:
    rows = SendRows(batch, host="10.1.2.3", now_ms=1_700_000_000_000, topic="T", **options)
    rows.group([4] * len(rows.topics))
    out = []
    while (request := rows.next_request()) is not None:
        out.append(request)
    return out


def messages(request: SendRequest) -> list[tuple[bytes, dict[str, str], int]]:
    """(body, properties, flag) of a request. [MessageDecoder.decodeMessages]"""
    if not request.batch:
        return [(request.body, decode_properties(request.properties), request.flag)]
    out, body = [], request.body
    while body:
        size, n = int.from_bytes(body[:4], "big"), int.from_bytes(body[16:20], "big")
        assert body[4:12] == bytes(8)
        props = int.from_bytes(body[20 + n : 22 + n], "big")
        assert size == 22 + n + props
        text = body[22 + n : size].decode()
        flag = int.from_bytes(body[12:16], "big", signed=True)
        out.append((body[20 : 20 + n], decode_properties(text), flag))
        body = body[size:]
    return out


NAME = TEXT.map(lambda text: f"user-{text}")
"""Of a user's property: some names belong to brokers and clients."""
rows_of = st.lists(
    st.fixed_dictionaries(
        {
            "body": st.binary(min_size=1, max_size=30),
            "tags": st.none() | TEXT,
            "properties": st.none() | st.dictionaries(NAME, st.none() | TEXT, max_size=3),
            "flag": st.none() | st.integers(-(2**31), 2**31 - 1),
        }
    ),
    max_size=30,
)


@given(rows_of, st.booleans(), st.integers(0, 5), st.integers(1, 400))
def test_slices_nulls_and_large_types(
    rows: list[Row], large: bool, skip: int, batch_bytes: int
) -> None:
    """A slice of a table refers to the memory of the whole."""
    text = pa.large_string() if large else pa.string()
    columns = {
        "body": pa.array([r["body"] for r in rows], pa.large_binary() if large else pa.binary()),
        "tags": pa.array([r["tags"] for r in rows], text),
        "properties": pa.array(
            [r["properties"] and list(r["properties"].items()) for r in rows], pa.map_(text, text)
        ),
        "flag": pa.array([r["flag"] for r in rows], pa.int64() if large else pa.int32()),
    }
    batch = pa.RecordBatch.from_pydict(columns).slice(skip)
    got = [
        message
        for request in send(batch, batch_bytes=batch_bytes, first_row=skip)
        for message in messages(request)
    ]
    wanted = rows[skip:]
    assert len(got) == len(wanted)
    for (body, properties, flag), row in zip(got, wanted, strict=True):
        assert body == row["body"]
        assert flag == (row["flag"] or 0)
        assert properties.pop("WAIT") == "true"
        assert properties.pop("UNIQ_KEY").startswith("0A010203")
        own = {k: v for k, v in (row["properties"] or {}).items() if v}
        assert properties == own | ({"TAGS": row["tags"]} if row["tags"] else {})


def test_keys_are_unique_over_batches() -> None:
    batch = pa.record_batch({"body": pa.array([b"x"] * 70_000)})
    keys = [
        m[1]["UNIQ_KEY"] for _ in range(2) for request in send(batch) for m in messages(request)
    ]
    assert len(keys) == 140_000
    assert len(set(keys[:70_000])) == 70_000


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (pa.array([1]), ValueError),
        (pa.schema([]), AttributeError),
        (b"no batch", AttributeError),
        (pa.record_batch({"body": pa.array([1])}), ValueError),
        (pa.record_batch({"body": pa.array([b"x"]), "x": pa.array([1])}), ValueError),
        (pa.record_batch({"body": pa.array([b"x"]), "body ": pa.array([1])}), ValueError),
        (pa.record_batch({"body": pa.array(["a"]).dictionary_encode()}), ValueError),
        (pa.record_batch({"body": pa.nulls(1)}), ValueError),
    ],
)
def test_what_is_no_batch_of_rows(value: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        send(value)


class _Lies:
    """Says that it is Arrow and is not."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def __arrow_c_array__(self) -> Any:
        return self._answer


def test_capsules_of_others_are_refused() -> None:
    schema, array = pa.record_batch({"body": pa.array([b"x"])}).__arrow_c_array__()
    for answer in (None, (), (schema,), (1, 2), (array, schema), (schema, schema)):
        with pytest.raises((TypeError, ValueError)):
            send(_Lies(answer))


def test_arguments() -> None:
    batch = pa.record_batch({"body": pa.array([b"x"])})
    with pytest.raises(ValueError, match="no IP address"):
        SendRows(batch, host="localhost", now_ms=0)
    for change in ({"max_message_size": 0}, {"max_message_size": 1 << 30}, {"batch_bytes": 0}):
        with pytest.raises(ValueError, match="16 MiB"):
            send(batch, **change)
    rows = SendRows(batch, host="::1", now_ms=0, topic="T")
    with pytest.raises(ValueError, match="all topics"):
        rows.group([1, 2])
    assert rows.next_request() is None, "nothing is grouped yet"


def test_rows_are_counted_from_the_first() -> None:
    batch = pa.record_batch({"body": pa.array([b"x", None])})
    with pytest.raises(MessageIllegalError, match="row 1001: the body is null"):
        send(batch, first_row=1000)
