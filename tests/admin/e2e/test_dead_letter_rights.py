"""Which rights the commands for dead letters need, at a broker with access control.

docs/dead-letters.md has them as a table. Each command is tried with exactly these rights, and
without each one of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyrmq.admin import Admin
from pyrmq.admin.auth import Acl, Entry, User
from pyrmq.client import Producer, PushConsumer
from pyrmq.model.message import Message
from pyrmq.net.address import format_address
from pyrmq.net.client.credentials import Credentials
from pyrmq.server import Running
from tests.auth.e2e.test_access_requests import ON, admin_of
from tests.support.dead_letters import die
from tests.support.fixtures import Serve
from tests.support.mqadmin import Ran, admin
from tests.support.waiting import until

GROUP, TOPIC = "billing", "orders"
SECRET = "r00t-secret"
ROOT = Credentials("root", SECRET)
Rights = dict[str, set[str]]

LETTERS: Rights = {f"Topic:%DLQ%{GROUP}": {"Sub", "Get"}, "Group:TOOLS_CONSUMER": {"Sub"}}
"""Of all that read letters."""
COMMANDS: dict[str, tuple[tuple[str, ...], Rights]] = {
    "list": (("list",), {**LETTERS, "Cluster:*": {"Get"}}),
    "look": (("look", GROUP), LETTERS),
    "to topic": (
        ("resend", GROUP, "--to", "topic", "--all", "--yes"),
        {**LETTERS, f"Topic:{TOPIC}": {"Pub", "Get"}, f"Group:{GROUP}": {"Get"}},
    ),
    "to group": (
        ("resend", GROUP, "--to", "group", "--all", "--yes"),
        {**LETTERS, f"Topic:{TOPIC}": {"Get"}, f"Group:{GROUP}": {"Sub"}},
    ),
    "export": (("export", GROUP), LETTERS),
}


@pytest.fixture
async def server(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Running]:
    """With one dead letter, and a user alice without rights."""
    monkeypatch.setenv("PYRMQ_ACCESS_KEY", "alice")
    monkeypatch.setenv("PYRMQ_SECRET_KEY", "geheim")
    async with serve(**ON) as running, admin_of(running, "root", SECRET) as tools:
        at = format_address(running.broker_address)
        await tools.users.create(User("alice", "geheim"), broker=at)
        (await tools.groups.change(GROUP, {}, broker=at)).check_all()
        async with Producer("p", namesrv=running.namesrv, credentials=ROOT) as producer:
            sent = await producer.send(Message(TOPIC, b"body"))

        async def routed() -> bool:
            return f"%RETRY%{GROUP}" in await tools.link.topics()

        async with PushConsumer(GROUP, {TOPIC: "*"}, namesrv=running.namesrv, credentials=ROOT):
            await until(routed, "the name server knows the retry topic")
        await die(tools, GROUP, at, sent)
        yield running


async def _give(tools: Admin, at: str, rights: Rights) -> None:
    if (await tools.acls.get("User:alice", broker=at)).values[0] is not None:
        (await tools.acls.delete("User:alice", broker=at)).check_all()
    entries = tuple(Entry(name, tuple(sorted(actions))) for name, actions in rights.items())
    (await tools.acls.create(Acl("User:alice", entries), broker=at)).check_all()


def _without(rights: Rights, resource: str, action: str) -> Rights:
    left = {name: set(actions) for name, actions in rights.items()}
    left[resource].discard(action)
    return {name: actions for name, actions in left.items() if actions}


async def _run(server: Running, words: tuple[str, ...]) -> Ran:
    return await admin(server.namesrv, "dlq", *words)


@pytest.mark.usefixtures("deadline")
@pytest.mark.parametrize("name", COMMANDS)
async def test_each_right_is_needed_and_no_other(server: Running, name: str) -> None:
    words, rights = COMMANDS[name]
    at = format_address(server.broker_address)
    async with admin_of(server, "root", SECRET) as tools:
        for resource, actions in rights.items():
            for action in sorted(actions):
                await _give(tools, at, _without(rights, resource, action))
                ran = await _run(server, words)
                assert ran.code != 0, (resource, action, ran.out)
                assert "has no right to" in ran.err
        await _give(tools, at, rights)
        ran = await _run(server, words)
        assert ran.code == 0, ran.err
        assert "7F000001" in ran.out or GROUP in ran.out, "it has the letter, or the group"


def test_the_page_has_them() -> None:
    page = (Path(__file__).parents[3] / "docs/dead-letters.md").read_text()
    for _, rights in COMMANDS.values():
        for resource in rights:
            shown = resource.replace(GROUP, "GROUP").replace(f"Topic:{TOPIC}", "Topic:TOPIC")
            assert f"`{shown}`" in page, shown
