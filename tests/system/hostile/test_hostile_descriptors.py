"""More connections than there are descriptors: clients that are there are served, the log rolls,
the server registers, and all of it comes back to normal."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.support.client import GET_MAX_OFFSET, GET_ROUTEINFO_BY_TOPIC, Client, Closed
from tests.support.server import Address, ServerProcess
from tests.support.waiting import eventually
from tests.support.wire import Command

LIMIT = 200
TOPIC = "Crowd"
CONF = "mappedFileSizeCommitLog=1048576\n"


@pytest.fixture
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that may have few descriptors."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    store = tmp_path_factory.mktemp("crowd") / "store"
    server = ServerProcess(store, conf=CONF)
    with server:
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (LIMIT, limits[1]))
        yield server


def test_a_crowd_takes_no_descriptor_from_the_server(crowded: ServerProcess) -> None:
    with ExitStack() as stack:
        old = stack.enter_context(Client(crowded.broker))
        assert old.send(TOPIC).code == 0
        crowd = [stack.enter_context(Client(crowded.broker)) for _ in range(LIMIT + 50)]
        eventually(lambda: "new connections refused" in crowded.stderr_text(), "some are refused")
        refused = 0
        for client in crowd:
            try:
                assert client.max_offset(TOPIC, 0) >= 1
            except (Closed, OSError):
                refused += 1
        assert 50 <= refused < LIMIT
        # The log rolls four times, and a new topic comes into its file and to the name server.
        for _ in range(64):
            assert old.send(TOPIC, b"x" * 65_536).code == 0
        assert old.send("NewTopic").code == 0

    def ask(address: Address, code: int, **ext: object) -> Command | None:
        """None while the connections of the crowd are not closed yet."""
        try:
            with Client(address) as client:
                return client.call(code, **ext)
        except (Closed, OSError):
            return None

    def has_route() -> bool:
        answer = ask(crowded.namesrv, GET_ROUTEINFO_BY_TOPIC, topic="NewTopic")
        return answer is not None and answer.code == 0

    def has_room() -> bool:
        answer = ask(crowded.broker, GET_MAX_OFFSET, topic=TOPIC, queueId=0)
        return answer is not None and int(answer.ext["offset"]) >= 64

    eventually(has_room, "there is room again")
    eventually(has_route, "the new topic has a route")
    assert "cannot" not in crowded.stderr_text()
    assert "Too many open files" not in crowded.stderr_text()
