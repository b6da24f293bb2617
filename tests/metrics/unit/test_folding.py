"""Which keys have rows of their own, against a model that says what must hold whatever comes."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from pyrmq.metrics.folding import Folding

MOST = 4


async def look(rows: Folding[str], totals: dict[str, int], choose: bool = False) -> None:
    """One page."""
    rows.begin()
    for key, total in totals.items():
        rows.see(key, (total, 10 * total))
    await rows.end()
    if choose:
        await rows.choose()


def shown(rows: Folding[str]) -> dict[str, int]:
    """The keys with rows, and what their first counter says."""
    found = {}
    for key in list(rows._items):
        item = rows._items[key]
        if item.kept:
            found[key] = item.counters[0]
    return found


async def test_all_have_rows_while_there_is_room() -> None:
    rows: Folding[str] = Folding(MOST, 2)
    await look(rows, {"a": 3, "b": 5})
    assert shown(rows) == {"a": 3, "b": 5}
    assert not rows.has_shared
    await look(rows, {"a": 4, "b": 5})
    assert shown(rows) == {"a": 4, "b": 5}


async def test_those_beyond_share_one_row() -> None:
    rows: Folding[str] = Folding(1, 2)
    await look(rows, {"a": 3, "b": 5, "c": 7})
    assert shown(rows) == {"a": 3}
    assert rows.shared == [12, 120]
    assert rows.folded == 2


async def test_the_busy_ones_get_rows_and_the_shared_row_never_goes_back() -> None:
    rows: Folding[str] = Folding(1, 2)
    await look(rows, {"a": 3, "b": 500}, choose=True)
    assert shown(rows) == {"b": 0}  # from now on it counts for itself
    assert rows.shared == [500, 5000]
    await look(rows, {"a": 4, "b": 503})
    assert shown(rows) == {"b": 3}
    assert rows.shared == [501, 5010]


async def test_rows_do_not_change_for_little() -> None:
    rows: Folding[str] = Folding(1, 2)
    await look(rows, {"a": 40, "b": 60}, choose=True)
    assert shown(rows) == {"a": 40}


async def test_what_was_busy_once_gives_way() -> None:
    rows: Folding[str] = Folding(1, 2)
    totals = {"a": 10_000, "b": 0}
    await look(rows, totals, choose=True)
    for _ in range(20):
        totals["b"] += 50
        await look(rows, totals, choose=True)
    assert list(shown(rows)) == ["b"]


async def test_a_weight_counts_as_activity() -> None:
    rows: Folding[str] = Folding(1, 1)
    rows.begin()
    rows.see("busy", (100,))
    rows.see("behind", (0,)).weight = 1_000_000
    await rows.end()
    await rows.choose()
    assert list(shown(rows)) == ["behind"]


async def test_keys_that_are_gone_are_forgotten_and_give_their_rows() -> None:
    rows: Folding[str] = Folding(1, 2)
    await look(rows, {"a": 3, "b": 5})
    await look(rows, {"b": 5})
    assert (len(rows), rows.folded) == (1, 1)
    await look(rows, {"b": 5, "c": 2})
    assert shown(rows) == {"c": 2}


async def test_totals_that_begin_anew() -> None:
    rows: Folding[str] = Folding(1, 2)
    await look(rows, {"a": 30})
    await look(rows, {"a": 2})
    assert shown(rows) == {"a": 32}


async def test_labels_are_made_again_at_each_choice() -> None:
    rows: Folding[str] = Folding(1, 2)
    rows.see("a", (1, 1)).labels = "old"
    await rows.choose()
    assert rows.see("a", (1, 1)).labels == ""


STEPS = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from("abcdefghij"), st.integers(0, 1 << 40), max_size=10),
        st.booleans(),
    ),
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(STEPS, st.integers(1, 5))
def test_each_message_is_counted_once(steps: list[tuple[dict[str, int], bool]], most: int) -> None:
    import trio

    async def main() -> None:
        rows: Folding[str] = Folding(most, 2)
        totals = dict.fromkeys("abcdefghij", 0)
        counted = shared = 0
        for grown, choose in steps:
            before = shown(rows)
            for key, more in grown.items():
                totals[key] += more
            await look(rows, totals)
            assert rows.shared[0] >= shared
            came = rows.shared[0] - shared
            came += sum(n - before.get(key, 0) for key, n in shown(rows).items())
            counted += came
            assert counted == sum(totals.values())
            shared = rows.shared[0]
            if choose:
                await rows.choose()
            kept = shown(rows)
            assert len(kept) == min(most, len(totals))
            assert rows.folded == len(totals) - len(kept)

    trio.run(main)


@pytest.mark.parametrize("most", [1, 3, 1000])
async def test_a_hundred_thousand_keys(most: int) -> None:
    rows: Folding[int] = Folding(most, 1)
    rows.begin()
    for key in range(100_000):
        rows.see(key, (key,))
    await rows.end()
    await rows.choose()
    kept = [key for key, item in rows._items.items() if item.kept]
    assert len(kept) == most
    assert rows.shared[0] + sum(range(most)) == sum(range(100_000))
