"""What is answered to a request.

`change` replaces the answers to a request code: a function of the command that gives an answer,
None for the usual one, `HANG_UP` to close the connection instead, or `SILENCE` to say nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from tests.support.wire import Command

HANG_UP = Command(-1)
SILENCE = Command(-2)
Change = Callable[[Command], Command | None]


class Script:
    """`asked` is every request that came, in order. May be used from several threads."""

    def __init__(self) -> None:
        self.asked: list[Command] = []
        self.change: dict[int, Change] = {}
        self._lock = threading.RLock()  # what changes an answer may ask for the usual one

    def answer(self, command: Command) -> Command:
        """The answer to a request, HANG_UP or SILENCE."""
        with self._lock:
            self.asked.append(command)
            changed = self.change[command.code](command) if command.code in self.change else None
            return self.usual(command) if changed is None else changed

    def usual(self, command: Command) -> Command:
        """The answer unless it is changed."""
        raise NotImplementedError


def times(count: int, answer: Change) -> Change:
    """An answer that is given so many times; then the usual one."""
    left = [count]

    def change(c: Command) -> Command | None:
        left[0] -= 1
        return answer(c) if left[0] >= 0 else None

    return change


def route(brokers: dict[str, int], addresses: dict[str, dict[int, str]]) -> dict[str, object]:
    """The route of a topic: queues by broker name, and addresses by broker name and id."""
    return {
        "brokerDatas": [
            {
                "brokerAddrs": {str(i): a for i, a in addresses[name].items()},
                "brokerName": name,
                "cluster": "C",
            }
            for name in brokers
        ],
        "queueDatas": [
            {"brokerName": name, "perm": 6, "readQueueNums": n, "writeQueueNums": n}
            for name, n in brokers.items()
        ],
    }
