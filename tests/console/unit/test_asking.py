"""Pages do not wait for a broker that hangs."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from pyrmq.admin.api import Admin
from pyrmq.admin.link import Replica
from pyrmq.console.views.asking import SECONDS, ask_each
from pyrmq.errors import ClientError, RequestTimeoutError


async def test_one_that_hangs_is_named_and_the_others_are_there(
    autojump_clock: MockClock,
) -> None:
    async def work(address: str) -> str:
        if address == "hangs:1":
            await trio.sleep_forever()
        if address == "fails:1":
            raise ClientError("no")
        return address

    before = trio.current_time()
    brokers = [Replica.at(f"{name}:1") for name in ("hangs", "good", "fails")]
    found = await ask_each(Admin("127.0.0.1:1"), brokers, work)
    assert trio.current_time() - before == pytest.approx(SECONDS)
    assert found.values == ["good:1"]
    assert [type(o.error) for o in found.failed] == [RequestTimeoutError, ClientError]
    assert "hangs:1 did not answer" in found.failed[0].problem
