"""A whole run: start, load, drain, stop, look at the store, judge."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress

from tests.support.client import Closed
from tests.support.operators import create_topic
from tests.support.server import ServerProcess
from tests.system.soak import delayed, halves, keyed, plain, replies
from tests.system.soak.dead_letters import DeadLetters
from tests.system.soak.flatness import judge
from tests.system.soak.groups import Management, staffs
from tests.system.soak.intruders import Intruder
from tests.system.soak.lives import Lives
from tests.system.soak.operators import Operator
from tests.system.soak.python_client import PythonClient
from tests.system.soak.read_back import TOPICS, read_back
from tests.system.soak.readings import Readings
from tests.system.soak.report import Report
from tests.system.soak.retention import Retention
from tests.system.soak.settings import CONF, Settings
from tests.system.soak.shared import Role, Shared

JOIN_SECONDS = 60.0
BELOW_EPHEMERAL = (15_000, 32_000)
"""Ports that the system gives to nobody: a connection to one that is not open just now cannot meet
itself, and nobody else has it when the server comes back."""


def free_port(chance: random.Random) -> int:
    while True:
        port = chance.randrange(*BELOW_EPHEMERAL)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class Soak:
    """`run` returns the report. KeyboardInterrupt ends the load early, and the rest is done; a
    second one ends at once."""

    def __init__(self, settings: Settings, say: Callable[[str], None] = print) -> None:
        chance = random.Random()
        server = ServerProcess(
            settings.folder / "store",
            flush=settings.flush,
            conf=CONF,
            namesrv_port=free_port(chance),
            broker_port=free_port(chance),
            own_group=True,
            start_timeout=60,
        )
        self.shared = Shared(settings, server)
        self._say = say
        self._told: set[str] = set()
        self._lives = Lives(self.shared)
        self._readings = Readings(self.shared, self._lives, say)
        every = max(min(settings.seconds / 60, 2.0), 0.3)
        self._management = Management(self.shared, staffs(self.shared), every)
        self._client = PythonClient(self.shared)
        self._loads: list[Role] = [
            *plain.roles(self.shared),
            *keyed.roles(self.shared),
            *delayed.roles(self.shared),
            *halves.roles(self.shared, self._told),
            *replies.roles(self.shared),
            Operator(self.shared),
            Intruder(self.shared),
            Retention(self.shared),
        ]

    def run(self) -> Report:
        shared = self.shared
        try:
            self._begin()
            try:
                self._load()
            except KeyboardInterrupt:
                self._say("the load ends early")
            for end in (self._end_load, self._drain, self._end):
                try:
                    end()
                except Exception:
                    shared.fault(traceback.format_exc())
        finally:
            for event in (shared.loading, shared.up):
                event.clear()
            shared.over.set()
            self._lives.hurry.set()
            if self._lives.is_alive():  # it may be about to start another process
                self._lives.join(JOIN_SECONDS)
            shared.server.kill()
        self._verify()
        return Report(
            shared.ledgers,
            shared.counts(),
            [*shared.faults, *self._logged()],
            judge(self._readings.found, shared.settings.limits),
        )

    def _begin(self) -> None:
        shared = self.shared
        self._lives.first()
        with shared.connect() as client:
            for topic, queues in TOPICS.items():
                answer = create_topic(client, topic, queues)
                if answer.code != 0:
                    raise RuntimeError(f"{topic}: {answer.code} {answer.remark}")
        shared.loading.set()
        self._management.begin()
        for role in [*self._loads, self._client, DeadLetters(shared)]:
            role.start()
        self._readings.start()
        self._lives.start()

    def _load(self) -> None:
        while not self._lives.ended.wait(0.2):
            pass
        time.sleep(1)  # some load for the last life too

    def _end_load(self) -> None:
        self._lives.hurry.set()
        self._lives.join(2 * JOIN_SECONDS)
        self.shared.loading.clear()
        for role in [*self._loads, self._management]:
            role.join(JOIN_SECONDS)
            if role.is_alive():
                self.shared.fault(f"{role.name} does not end")

    def _drain(self) -> None:
        """Until nothing is owed and no half waits, or for so long as the settings say."""
        shared = self.shared
        begun = time.monotonic()
        for role in halves.answering(shared, self._told):
            role.start()
        waiting = -1
        while time.monotonic() < begun + shared.settings.drain_seconds and shared.server.running:
            with suppress(Closed, ConnectionError, TimeoutError):
                waiting = halves.pending(shared)
            if waiting == 0 and shared.ledgers.owed() == 0:
                self._say(f"drained in {time.monotonic() - begun:.1f} s")
                break
            time.sleep(0.2)
        else:
            shared.fault(f"not drained: {shared.ledgers.owed()} owed, {waiting} halves wait")

    def _end(self) -> None:
        """All leave, and the server stops in order."""
        shared = self.shared
        self._client.leave()
        self._management.end()
        shared.over.set()
        self._readings.join(JOIN_SECONDS)
        if shared.server.running:
            read_back(shared)
            shared.up.clear()
            shared.server.terminate()

    def _verify(self) -> None:
        """`pyrmq store verify` finds nothing."""
        command = [sys.executable, "-m", "pyrmq", "store", "verify"]
        command.append(str(self.shared.server.store))
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            self.shared.fault(f"pyrmq store verify: {done.returncode}\n{done.stdout[-2000:]}")
        summary = (done.stdout.strip().splitlines() or [done.stderr.strip()])[-1]
        self._say(f"store verify: {summary}; slowest start {self._lives.slowest_start:.1f} s")

    def _logged(self) -> list[str]:
        """What no log of a server may have in it."""
        text = self.shared.server.stderr_text()
        return [
            f"the server's log: {text[text.index(mark) - 200 : text.index(mark) + 1500]}"
            for mark in ("Traceback (most recent call last)", "panicked at")
            if mark in text
        ]
