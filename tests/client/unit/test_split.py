"""Messages in batches."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrmq import ClientError, Message, Producer, split_batches
from pyrmq.client.producer.outgoing import batch_size

texts = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]))
messages = st.builds(
    Message,
    st.sampled_from(["T", "U"]),
    st.binary(min_size=1, max_size=300),
    tags=texts,
    keys=st.lists(texts, max_size=2),
    wait_store_ok=st.booleans(),
    properties=st.dictionaries(st.sampled_from(["a", "ä"]), texts),
)


@given(st.lists(messages, max_size=30), st.integers(1, 3000))
def test_all_of_them_in_order_and_within_the_limit(given: list[Message], limit: int) -> None:
    batches = list(split_batches(given, limit))
    assert [m for batch in batches for m in batch] == given
    packer = Producer("g", namesrv="n:1", namespace="n" * 20)._packer
    for batch in batches:
        assert len({(m.topic, m.wait_store_ok) for m in batch}) == 1
        size = len(packer.batch(batch).body)
        assert size <= limit or len(batch) == 1
        assert size <= sum(map(batch_size, batch))


def test_taken_as_they_are_needed() -> None:
    taken = 0

    def endless() -> Iterator[Message]:
        nonlocal taken
        while True:
            taken += 1
            yield Message("T", bytes(100_000))

    batches = split_batches(endless())
    assert len(next(batches)) == 41
    assert taken == 42


def test_what_is_no_message() -> None:
    with pytest.raises(ClientError, match="one of the messages is bytes; a Message is needed"):
        list(split_batches([b"x"]))  # type: ignore[list-item]
    with pytest.raises(ClientError, match="at least 1 byte"):
        list(split_batches([], 0))
