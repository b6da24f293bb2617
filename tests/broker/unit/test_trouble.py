"""When a failure that repeats is said again."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from pyrmq.broker.trouble import Trouble


async def test_a_reason_is_said_once_and_then_every_minute(mock_clock: MockClock) -> None:
    trouble = Trouble()
    assert trouble.over() is None
    assert trouble.say("down") == ""
    for _ in range(5):
        mock_clock.jump(10)
        assert trouble.say("down") is None
    mock_clock.jump(10)
    assert trouble.say("down") == " for 60 s (6 more tries)"
    assert trouble.say("refused") == " for 60 s (1 more tries)", "another reason"
    assert trouble.say("refused") is None
    mock_clock.jump(5)
    assert trouble.over() == 65
    assert trouble.over() is None
    assert trouble.say("refused") == "", "that is a new one"
    assert trio.current_time() >= 65
