"""What is kept of texts that others choose."""

from __future__ import annotations

from pyrmq.model.subscription import FEW, MANY, SHORT, cached_by_text


def test_long_texts_do_not_fill_the_memory() -> None:
    made: list[str] = []

    def make(text: str) -> str:
        made.append(text)
        return text

    keep = cached_by_text(make)
    long = [str(n) * SHORT + "x" for n in range(FEW + 1)]
    for text in long:
        assert keep(text) == text
    made.clear()
    assert keep(long[-1]) == long[-1]
    assert made == []
    keep(long[0])
    assert made == [long[0]]


def test_many_short_texts_are_kept() -> None:
    made: list[str] = []

    def make(text: str) -> str:
        made.append(text)
        return text

    keep = cached_by_text(make)
    for _ in range(2):
        for n in range(MANY):
            keep(f"{n}".rjust(SHORT))
    assert len(made) == MANY
