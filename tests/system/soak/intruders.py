"""Connections that mean no good: halves of frames, garbage, damaged requests, and silence."""

from __future__ import annotations

import time
from collections import deque
from contextlib import suppress

from tests.support.client import Client, Closed
from tests.support.wire import encode
from tests.system.hostile.damage import DAMAGE, samples
from tests.system.soak.shared import ANSWER_SECONDS, Role, Shared

RATE = 2.0
SILENT = 10
"""Connections that are left open and say nothing; the oldest goes when another comes."""


class Intruder(Role):
    def __init__(self, shared: Shared) -> None:
        super().__init__(shared, "intruder")
        self._silent: deque[Client] = deque()
        self._frames = [encode(command) for command in samples()]

    def work(self) -> None:
        while self.wanted() and self.shared.up.is_set():
            server = self.shared.server
            address = self.chance.choice((server.broker, server.broker, server.namesrv))
            with suppress(Closed, ConnectionError):
                client = Client(address, timeout=ANSWER_SECONDS)
                try:
                    self._intrude(client)
                finally:
                    if client not in self._silent:
                        client.close()
            self.shared.count("hostile connections")
            time.sleep(1 / (RATE * self.shared.settings.rate))
        while self._silent:
            self._silent.popleft().close()

    def _intrude(self, client: Client) -> None:
        frame = self.chance.choice(self._frames)
        way = self.chance.choice(("silent", "half", "noise", "length", "damaged", "reset"))
        data = {
            "silent": b"",
            "half": frame[: self.chance.randrange(1, len(frame))],
            "noise": self.chance.randbytes(self.chance.choice((1, 8, 300, 5000))),
            "length": self.chance.choice((b"\xff" * 4, b"\x7f\xff\xff\xff", b"\0\0\0\0")) * 3,
            "damaged": self._damaged(frame),
            "reset": frame[: len(frame) // 2],
        }[way]
        if data:
            client.send_raw(data)
        if way in ("silent", "half"):
            self._silent.append(client)
            while len(self._silent) > SILENT:
                self._silent.popleft().close()
        elif way == "reset":
            client.reset()
        else:
            client.finish()
            try:
                client.until_closed()
            except TimeoutError:
                self.shared.fault(f"not closed after {data[:100].hex()}")

    def _damaged(self, frame: bytes) -> bytes:
        data = bytearray(frame)
        self.chance.choice(DAMAGE)(self.chance, data)
        if len(data) > 4:  # let it pass the frame check
            data[:4] = (len(data) - 4).to_bytes(4, "big")
        return bytes(data)
