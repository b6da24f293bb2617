"""The processors of requests about accounts, without a server."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from pyrmq.auth.plain.access import PlainAccess
from pyrmq.broker.requests.plain_acl import MAX_WAITING, PlainAclProcessor
from pyrmq.errors import ResponseError
from pyrmq.net.server.answers import Elsewhere

CONNECTION: Any = SimpleNamespace(peer="127.0.0.1:5")


def _delete(processor: PlainAclProcessor) -> Elsewhere:
    command: Any = SimpleNamespace(subject=None, ext={"accessKey": "nobody-at-all"})
    return processor.delete(CONNECTION, command)


async def test_changes_that_wait_are_bounded(tmp_path: Path) -> None:
    file = trio.Path(tmp_path / "conf" / "plain_acl.yml")
    await file.parent.mkdir()
    await file.write_text("accounts: []\n")
    access = await trio.to_thread.run_sync(PlainAccess, tmp_path)
    processor = PlainAclProcessor(access, "C", "broker-a", ("127.0.0.1", 1))

    async def refused(answer: Elsewhere) -> None:
        with pytest.raises(ResponseError, match="there is no account"):
            await answer.answer

    async with trio.open_nursery() as nursery, access.changing:
        for _ in range(MAX_WAITING):
            nursery.start_soon(refused, _delete(processor))
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(ResponseError, match="still being written") as error:
            _delete(processor)
        assert error.value.code == 210
    with pytest.raises(ResponseError, match="there is no account"):
        await _delete(processor).answer


def test_without_access_control_every_request_is_refused() -> None:
    processor = PlainAclProcessor(None, "C", "broker-a", ("127.0.0.1", 1))
    command: Any = SimpleNamespace(ext={"accessKey": "someone", "globalWhiteAddrs": "*"})
    by_code = processor.processors()
    assert by_code.keys() == {50, 51, 52, 53, 54}
    codes = {}
    for code, ask in by_code.items():
        with pytest.raises(ResponseError, match="set aclEnable=true") as error:
            ask(CONNECTION, command)
        codes[code] = error.value.code
    assert codes == {50: 209, 51: 210, 52: 1, 53: 211, 54: 1}
