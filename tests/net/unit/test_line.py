"""How many wait, and how long the first one."""

from __future__ import annotations

from pyrmq.net.server.line import Line


def test_the_one_in_front_is_the_one_who_waits_longest() -> None:
    now = 0.0
    line = Line(lambda: now)
    assert (len(line), line.head_wait_ms()) == (0, 0)
    first = line.join()
    now = 1.5
    second = line.join()
    third = line.join()
    now = 2.0
    assert (len(line), line.head_wait_ms()) == (3, 2000)
    line.leave(second)
    assert (len(line), line.head_wait_ms()) == (2, 2000)
    line.leave(first)
    assert (len(line), line.head_wait_ms()) == (1, 500)
    line.leave(third)
    assert (len(line), line.head_wait_ms()) == (0, 0)
