"""Reading the next rows while the last ones are worked on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from pyrmq.segments.ahead import ahead


def test_gives_all_in_order() -> None:
    assert list(ahead(iter(range(100)))) == list(range(100))
    assert list(ahead(iter([]))) == []


def test_reads_as_much_before_it_is_wanted_as_asked_for() -> None:
    seen: list[int] = []
    third = threading.Event()

    def rows() -> Iterator[int]:
        for number in range(10):
            seen.append(number)
            if number == 3:
                third.set()
            yield number

    with closing(ahead(rows(), 3)) as reading:
        assert next(reading) == 0
        assert third.wait(30)
    assert seen == [0, 1, 2, 3]


def test_an_error_comes_behind_what_was_read_before_it() -> None:
    def rows() -> Iterator[int]:
        yield 1
        yield 2
        raise ValueError("damaged")

    reading = ahead(rows())
    assert [next(reading), next(reading)] == [1, 2]
    with pytest.raises(ValueError, match="damaged"):
        next(reading)
    assert list(reading) == []


def test_closing_it_waits_for_what_is_being_read() -> None:
    begun, go = threading.Event(), threading.Event()
    seen: list[str] = []

    def rows() -> Iterator[int]:
        yield 1
        begun.set()
        go.wait(30)
        seen.append("read")
        yield 2

    reading = ahead(rows())
    assert next(reading) == 1
    assert begun.wait(30)
    closer = threading.Thread(target=reading.close)
    closer.start()
    go.set()
    closer.join(30)
    assert not closer.is_alive()
    assert seen == ["read"]
    assert not [one for one in threading.enumerate() if one.name.startswith("read ahead")]
