"""The lines that a stream through brokers logs."""

from __future__ import annotations

import pickle

import pytest

from pyrmq.model.message import MessageQueue
from spark_ext.broker.progress import EVERY, BrokerProgress


def test_lines_come_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "spark_ext.broker.progress")
    now = [0.0]
    progress = BrokerProgress(lambda: now[0])
    queues = [MessageQueue("T", "a", n) for n in range(10)]
    progress.committed(dict.fromkeys(queues[:2], 5))
    assert caplog.messages == ["rocketmq stream: T a 0 at 5, T a 1 at 5"]
    progress.committed(dict.fromkeys(queues, 7))
    assert len(caplog.messages) == 1
    now[0] = EVERY
    progress.committed(dict.fromkeys(queues, 9))
    assert caplog.messages[1].startswith(
        "rocketmq stream: 8 messages since the last line; T a 0 at 9"
    )
    assert caplog.messages[1].endswith("T a 7 at 9, and 2 queues more")
    progress.stopped()
    assert len(caplog.messages) == 2
    progress.committed({queues[0]: 10})
    progress.stopped()
    assert caplog.messages[2] == "rocketmq stream: 1 messages since the last line; T a 0 at 10"
    pickle.loads(pickle.dumps(progress)).stopped()
    assert len(caplog.messages) == 3
