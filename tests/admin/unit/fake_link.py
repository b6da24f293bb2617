"""A link to a broker of lists, without sockets."""

from __future__ import annotations

from typing import Any

from pyrmq.admin.txn.link import BrokerLink
from tests.support.scripted.broker import ScriptedBroker
from tests.support.wire import Command


class FakeLink(BrokerLink):
    def __init__(self, broker: ScriptedBroker) -> None:
        super().__init__(None, ("127.0.0.1", 10911))  # type: ignore[arg-type]
        self._broker = broker

    async def _call(self, code: int, ext: dict[str, Any], timeout: float = 0) -> Any:
        assert code < 1000
        text = {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in ext.items()}
        return self._broker.answer(Command(int(code), text))
