"""`pyrmq bench` against Apache RocketMQ's broker: what pyrmq's own does not have yet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyrmq.bench.options import Options
from pyrmq.bench.run import run
from pyrmq.net.address import format_address

from .store import peer

pytestmark = pytest.mark.slow


CONF = "timerWheelEnable=true\nbrokerFastFailureEnable=false\nosPageCacheBusyTimeOutMills=60000\n"
"""On a busy machine a new JVM would else refuse sends that waited for 200 ms."""


@pytest.fixture(scope="module")
def broker(home: Path) -> Iterator[str]:
    with (
        peer.NameServer(home / "names") as names,
        peer.RealBroker(home / "store", names.address, CONF, home=home / "broker") as started,
    ):
        yield format_address(started.address)


def test_each_message_is_popped_once(broker: str) -> None:
    for topic, extra in (("BenchPopA", 0), ("BenchPopB", 30)):
        if extra:  # what is there before is not this run's
            run(Options("send", address=broker, topic=topic, count=extra, size="64"))
        options = Options("pop", address=broker, topic=topic, count=400, verify=True)
        options.consumers, options.rate = 2, 2000.0
        options.timeout = options.settle = 60.0
        found = run(options)
        v = found.verify
        assert v is not None
        assert (v.sent, v.received, v.lost, v.twice, v.foreign) == (400, 400, 0, 0, 0)
        assert (found.ended, found.errors) == ("count", [])
        assert found.latency["end_to_end"].count == found.latency["ack"].count == 400
