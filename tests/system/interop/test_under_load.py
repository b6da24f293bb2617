"""Members of the Java client's and the Go client's groups come and go, and the broker is restarted,
while messages are sent all the time: nothing is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.support.server import ServerProcess

from . import toolchain
from .conftest import built
from .drivers import Driver, Running
from .load import (
    Load,
    each_receives,
    in_order,
    nothing_is_missing,
    together_receive_all_queues,
)
from .txn import TxnServer, serving

pytestmark = pytest.mark.thorough("each takes half a minute; the soak has members of our own")

NEWEST = f"java-{toolchain.NEWEST}"
JAVA = [NEWEST, *(f"java-{version}" for version in toolchain.OLDER_JAVA_CLIENTS)]
GROUPS = [
    *(pytest.param([name] * 4, id=name) for name in [*JAVA, "go"]),
    pytest.param([NEWEST, "go", "java-4.9.8", NEWEST], id="mixed"),
]
"""The clients of the four members of a group, in the order in which they join."""
SECONDS = 240


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TxnServer]:
    with serving(tmp_path_factory.mktemp("load"), "", "") as running:
        yield running


@pytest.fixture
def join(server: TxnServer, topic: str, group: str) -> Iterator[Callable[..., Running]]:
    """Starts a member; those that are left are killed at the end."""
    with ExitStack() as stack:

        def start(client: str, command: str = "consume", of: str = group) -> Running:
            driver = Driver(client, tuple(built(client)), server.namesrv, server.state)
            words = {"topic": topic, "group": of, "stay": 1, "timeout": SECONDS}
            return stack.enter_context(driver.start(command, **words))

        yield start


@pytest.mark.parametrize("clients", GROUPS)
def test_members_come_and_go(
    clients: list[str], server: TxnServer, join: Callable[..., Running], topic: str
) -> None:
    """Two join the first one, the second is killed, the first leaves, a fourth joins."""
    with Load(server.address, topic) as load:
        one = join(clients[0])
        each_receives(load, [one])
        two = join(clients[1])
        each_receives(load, [one, two])
        three = join(clients[2])
        each_receives(load, [one, two, three])
        two.kill()
        together_receive_all_queues(load, [one, three])
        one.finish()
        together_receive_all_queues(load, [three])
        four = join(clients[3])
        each_receives(load, [three, four])
        nothing_is_missing(load, [one, two, three, four])
    three.finish()
    four.finish()


@pytest.mark.parametrize("client", JAVA)
def test_members_of_an_ordered_group_come_and_go(
    client: str, server: TxnServer, join: Callable[..., Running], topic: str
) -> None:
    """Whoever takes a queue over goes on behind what the other one has consumed."""
    with Load(server.address, topic) as load:
        one = join(client, "consume-orderly")
        each_receives(load, [one])
        two = join(client, "consume-orderly")
        each_receives(load, [one, two])
        one.finish()
        together_receive_all_queues(load, [two])
        three = join(client, "consume-orderly")
        each_receives(load, [two, three])
        two.finish()
        together_receive_all_queues(load, [three])
        nothing_is_missing(load, [one, two, three])
    three.finish()
    in_order([one, two, three])


@pytest.mark.parametrize(
    "clients",
    [
        pytest.param((NEWEST, "go"), id=f"{NEWEST}-go"),
        pytest.param(("java-5.3.3", "java-4.9.8"), id="java-5.3.3-java-4.9.8"),
        pytest.param(("java-5.1.4", "java-4.9.4"), id="java-5.1.4-java-4.9.4"),
    ],
)
def test_the_broker_is_restarted(
    clients: tuple[str, str],
    server: TxnServer,
    join: Callable[..., Running],
    topic: str,
    group: str,
) -> None:
    """Two groups consume; the broker is killed, stopped in order, and killed again."""
    process = server.process
    if not isinstance(process, ServerProcess):
        pytest.skip("Apache's broker cannot be started again at the same address here")
    with Load(server.address, topic) as load:
        members = []
        for client in clients:
            members.append(join(client, of=f"{group}-{len(members)}"))
            each_receives(load, members)
        for end in (process.kill, process.terminate, process.kill):
            load.goes_on()
            end()
            process.start()
            each_receives(load, members)
        for member in members:
            nothing_is_missing(load, [member])
    for member in members:
        member.finish()
