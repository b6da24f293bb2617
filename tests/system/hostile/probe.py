"""What must hold after any bad input, and how bad input is delivered."""

from __future__ import annotations

import itertools

from tests.support.client import GET_ROUTEINFO_BY_TOPIC, Client, Closed, Pulled
from tests.support.server import Address, ServerProcess
from tests.support.waiting import eventually
from tests.support.wire import Command

GOOD_TOPIC = "GoodTopic"

#: Seconds in which the server must have given its answer or closed.
PATIENCE = 10.0

#: What a file's worth of bad input may leave behind in anonymous memory: allocator remains of
#: several 16 MiB frames, not the sum of what was sent.
MEMORY_SLACK_KIB = 96 * 1024


class Probe:
    """A server under attack, seen from a connection that was there before and from new ones."""

    def __init__(self, server: ServerProcess, old: Client) -> None:
        self.server = server
        self.old = old
        self._numbers = itertools.count()
        self._round_trip(old, "first")
        self._wait_for_route()
        self._baseline_kib = server.status_kib("RssAnon")
        self._log_seen = 0

    def _wait_for_route(self) -> None:
        with Client(self.server.namesrv) as client:
            eventually(
                lambda: client.call(GET_ROUTEINFO_BY_TOPIC, topic=GOOD_TOPIC).code,
                f"{GOOD_TOPIC} has a route",
                until=lambda code: code == 0,
            )

    def start_case(self) -> None:
        self._log_seen = len(self.server.stderr_text())

    def assert_unharmed(self) -> None:
        assert self.server.running, f"the server died:\n{self.server.stderr_text()[-4000:]}"
        self.assert_serving()
        self.assert_memory_bounded()
        log = self.server.stderr_text()[self._log_seen :]
        for trace in ("Traceback (most recent call last)", "panicked at", "stack overflow"):
            assert trace not in log, f"bad input reached as far as this:\n{log[-4000:]}"

    def assert_serving(self) -> None:
        """Old and new connections send and read back; the name server knows the route."""
        self._round_trip(self.old, "old")
        with Client(self.server.broker) as fresh:
            self._round_trip(fresh, "fresh")
        with Client(self.server.namesrv) as fresh:
            answer = fresh.call(GET_ROUTEINFO_BY_TOPIC, topic=GOOD_TOPIC)
            assert answer.code == 0, f"route: {answer.code} {answer.remark}"

    def assert_memory_bounded(self, slack_kib: int = MEMORY_SLACK_KIB) -> None:
        """Anonymous memory comes back to the baseline plus slack (freeing may take a moment)."""
        what = f"anonymous memory has grown by {slack_kib} KiB at most"
        eventually(self.grown_kib, what, until=lambda grown: grown <= slack_kib)

    def grown_kib(self) -> int:
        return self.server.status_kib("RssAnon") - self._baseline_kib

    def _round_trip(self, client: Client, name: str) -> None:
        body = f"{name} {next(self._numbers)}".encode()
        answer = client.send(GOOD_TOPIC, body)
        assert answer.code == 0, f"{name} connection: send {answer.code} {answer.remark}"
        offset = int(answer.ext["queueOffset"])

        def pull() -> Pulled:
            pulled = client.pull(GOOD_TOPIC, 0, offset, maximum=1)
            assert pulled.code in (0, 19), f"{name} connection: pull {pulled}"
            return pulled

        what = f"{name} connection: message {offset} is visible"
        pulled = eventually(pull, what, until=lambda pulled: pulled.code == 0)
        assert pulled.records[0].body == body


def deliver(address: Address, data: bytes, *, end: bool = False) -> list[Command] | None:
    """Send bytes on a connection of their own; the answers up to its close, None if it stays open.

    end: close the sending half after the bytes, so that the server has to close.
    """
    with Client(address) as client:
        try:
            client.send_raw(data)
            if end:
                client.finish()
            return client.until_closed(PATIENCE)
        except Closed:
            return []
        except TimeoutError:
            return None


def assert_closed(address: Address, data: bytes) -> None:
    """The bytes cost the connection, and nothing is answered."""
    answers = deliver(address, data)
    assert answers is not None, "the connection stays open"
    assert answers == []


def assert_refused(address: Address, data: bytes) -> Command | None:
    """The bytes cost the connection or are answered with an error; the answer if there is one."""
    with Client(address) as client:
        try:
            client.send_raw(data)
            answer = client.receive(PATIENCE)
        except Closed:
            return None
        assert answer.code != 0, f"accepted: {answer}"
        return answer
