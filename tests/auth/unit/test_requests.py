"""Requests about users and access lists, their codes and texts as RocketMQ's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from pyrmq.auth.access import Access
from pyrmq.auth.audit import Asker
from pyrmq.auth.requests import MAX_BODY, AccessProcessor
from pyrmq.engine import Command
from pyrmq.errors import PyrmqError
from pyrmq.model.codes import RequestCode as Code
from pyrmq.net.command import Response
from pyrmq.net.server.admin_access import AdminAccess
from pyrmq.net.server.connection import Connection
from tests.auth.unit.commands import command
from tests.auth.unit.stage import Peer

ENTRY = {"resource": "Topic:T", "actions": ["Pub"], "decision": "Allow"}


class Server:
    """Its processors, asked by a super user, an administrator, or nobody that signs."""

    def __init__(self, folder: Path) -> None:
        self.access = Access(folder / "users.json", folder / "acls.json")
        self.access.ensure_super("root", "r00t-secret")
        self.peer = Peer()
        self.is_super: bool | None = True
        self.admins = AdminAccess()

    def _asks(self, connection: Connection, asked: Command) -> Asker:
        return Asker("somebody", connection.peer, bool(self.is_super))

    async def ask(self, code: int, body: Any = b"", **ext: str) -> tuple[int, str | None, bytes]:
        asks = None if self.is_super is None else self._asks
        processor = AccessProcessor(self.access, asks, self.admins).by_code()[code]
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        try:
            answer: Any = processor(self.peer.connection, command(code, ext, raw))
            answer = answer if isinstance(answer, Response) else await answer
        except PyrmqError as e:
            return e.code or 1, str(e), b""
        return answer.code, answer.remark, answer.body


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path)
    yield made
    made.peer.close()


async def test_users(server: Server) -> None:
    alice = {"username": "ignored", "password": "geheim"}
    assert await server.ask(Code.AUTH_CREATE_USER, alice) == (29, "The username is blank", b"")
    assert await server.ask(Code.AUTH_CREATE_USER, alice, username="alice") == (0, None, b"")
    assert (await server.ask(Code.AUTH_CREATE_USER, alice, username="alice"))[:2] == (
        16, "The user is existed",
    )  # fmt: skip
    assert (await server.ask(Code.AUTH_CREATE_USER, username="bob"))[0] == 16
    change = {"userStatus": "disable"}
    assert await server.ask(Code.AUTH_UPDATE_USER, change, username="alice") == (0, None, b"")
    shown = b'{"password":"geheim","userStatus":"disable","userType":"Normal","username":"alice"}'
    assert await server.ask(Code.AUTH_GET_USER, username="alice") == (0, None, shown)
    assert await server.ask(Code.AUTH_GET_USER, username="bob") == (0, None, b"")
    assert await server.ask(Code.AUTH_LIST_USER, filter="lic") == (0, None, b"[" + shown + b"]")
    assert await server.ask(Code.AUTH_LIST_USER, filter="bob") == (0, None, b"")
    assert await server.ask(Code.AUTH_DELETE_USER, username="alice") == (0, None, b"")
    assert await server.ask(Code.AUTH_DELETE_USER, username="alice") == (0, None, b"")
    for code in (Code.AUTH_UPDATE_USER, Code.AUTH_GET_USER):
        assert (await server.ask(code, username=" "))[0] == 29


async def test_passwords_are_for_super_users(server: Server) -> None:
    for is_super, told in ((True, True), (False, False)):
        server.is_super = is_super
        for code, ext in ((Code.AUTH_GET_USER, {"username": "root"}), (Code.AUTH_LIST_USER, {})):
            code_, _, body = await server.ask(code, **ext)
            assert code_ == 0
            assert (b"r00t-secret" in body) == told


async def test_lists(server: Server) -> None:
    await server.ask(Code.AUTH_CREATE_USER, {"password": "x"}, username="alice")
    body = {"policies": [{"entries": [ENTRY]}]}
    who = {"subject": "User:alice"}
    for empty in (b"", {}, {"policies": []}):
        assert await server.ask(Code.AUTH_CREATE_ACL, empty, **who) == (
            1, "The body of acl is null", b"",
        )  # fmt: skip
    assert await server.ask(Code.AUTH_CREATE_ACL, body, **who) == (0, None, b"")
    shown = (
        b'{"policies":[{"entries":[{"actions":["Pub"],"decision":"Allow","resource":"Topic:T"}],'
        b'"policyType":"Custom"}],"subject":"User:alice"}'
    )
    assert await server.ask(Code.AUTH_GET_ACL, subject="user:alice") == (0, None, shown)
    assert await server.ask(Code.AUTH_LIST_ACL) == (0, None, b"[" + shown + b"]")
    assert await server.ask(Code.AUTH_LIST_ACL, resourceFilter="Group") == (0, None, b"")
    assert await server.ask(Code.AUTH_LIST_ACL, subjectFilter="bob") == (0, None, b"")
    assert (await server.ask(Code.AUTH_CREATE_ACL, body, subject="User:bob"))[0] == 16
    assert (await server.ask(Code.AUTH_CREATE_ACL, body, subject="Role:alice"))[0] == 16
    assert (await server.ask(Code.AUTH_GET_ACL, subject="User:bob"))[0] == 16
    wrong = {"policies": [{"entries": [{**ENTRY, "actions": ["Any"]}]}]}
    assert await server.ask(Code.AUTH_UPDATE_ACL, wrong, **who) == (
        16, "The actions can not be Any.", b"",
    )  # fmt: skip
    assert (await server.ask(Code.AUTH_DELETE_ACL, **who, resource="Topic"))[0] == 16
    assert (await server.ask(Code.AUTH_DELETE_ACL, **who, policyType="Other"))[0] == 16
    assert (await server.ask(Code.AUTH_DELETE_ACL, **who, resource="Topic:T"))[0] == 0
    assert await server.ask(Code.AUTH_GET_ACL, **who) == (0, None, b"")
    assert (await server.ask(Code.AUTH_DELETE_ACL, **who))[0] == 16


async def test_a_body_that_is_too_long(server: Server) -> None:
    long = b'{"password":"x"}' + b" " * MAX_BODY
    assert (await server.ask(Code.AUTH_CREATE_USER, long, username="alice"))[0] == 16
    assert (await server.ask(Code.AUTH_CREATE_ACL, long, subject="User:root"))[0] == 29


async def test_without_authentication_only_the_own_machine_asks(server: Server) -> None:
    server.is_super = None
    made = {"password": "x", "userType": "Super"}
    every: list[tuple[int, Any, dict[str, str]]] = [
        (Code.AUTH_CREATE_USER, made, {"username": "alice"}),
        (Code.AUTH_UPDATE_USER, made, {"username": "root"}),
        (Code.AUTH_DELETE_USER, b"", {"username": "alice"}),
        (Code.AUTH_GET_USER, b"", {"username": "root"}),
        (Code.AUTH_LIST_USER, b"", {}),
        (Code.AUTH_CREATE_ACL, {"policies": [{"entries": [ENTRY]}]}, {"subject": "User:root"}),
        (Code.AUTH_UPDATE_ACL, {"policies": [{"entries": [ENTRY]}]}, {"subject": "User:root"}),
        (Code.AUTH_GET_ACL, b"", {"subject": "User:root"}),
        (Code.AUTH_LIST_ACL, b"", {}),
        (Code.AUTH_DELETE_ACL, b"", {"subject": "User:root"}),
    ]
    for code, body, ext in every:
        assert (await server.ask(code, body, **ext))[0] == 16
    assert [user.name for user in server.access.users.all()] == ["root"]
    server.admins = AdminAccess("11.0.0.0/8")
    for code, body, ext in every:
        assert (await server.ask(code, body, **ext))[0] == 16
    server.admins = AdminAccess("10.0.0.5")
    for code, body, ext in every:
        assert (await server.ask(code, body, **ext))[0] == 0
    server.admins = AdminAccess()
    server.peer.close()
    server.peer = Peer("127.0.0.1:5")
    for code, body, ext in every:
        answer = await server.ask(code, body, **ext)
        assert answer[0] == 0
        assert b"r00t-secret" not in answer[2]


async def test_changes_are_made_one_at_a_time(server: Server) -> None:
    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(
                lambda n=number: server.ask(
                    Code.AUTH_CREATE_USER, {"password": "x"}, username=f"u{n}"
                )
            )
    assert len(server.access.users) == 21
    assert len(Access(server.access.users.path, server.access.acls.path).users) == 21
