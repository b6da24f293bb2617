"""The table: what each kind of credentials gets for each request, and which rights that needs."""

from __future__ import annotations

from tests.support.wire import Command

from ..store import peer
from . import answers
from .requests import GROUP, PLAIN, TOPIC, TOPIC_SETTINGS, Request, every
from .signing import Session
from .users import CREDENTIALS, RIGHT, SUPER, Users, entry, needs

Row = dict[str, object]


class Recorder:
    """Sends requests, with the topics and groups that they are about in their first state."""

    def __init__(self, address: peer.Address, users: Users) -> None:
        self.session = Session(address)
        self.users = users

    def _super(self, code: int, ext: dict[str, str], body: bytes = b"") -> None:
        answer = self.session.ask(Command(code, ext, body), SUPER)
        assert answer is not None, f"no answer to {code}"

    def prepare(self, request: Request) -> None:
        """What the request is about is there."""
        self._super(17, {**TOPIC_SETTINGS, "topic": TOPIC})
        self._super(200, {}, b'{"groupName":"%s"}' % GROUP.encode())
        if request.code in (207, 215):
            self._super(17, {**TOPIC_SETTINGS, "topic": "GoneTopic"})
            self._super(200, {}, b'{"groupName":"GoneGroup"}')
        if request.code in range(3001, 3011):
            self._super(3003, {"username": "made"})
            if request.code != 3001:
                self._super(3001, {"username": "made"}, b'{"password":"made-secret"}')

    def row(self, request: Request) -> Row:
        """One line of the table."""
        self.prepare(request)
        wanted = needs(self.users, self.session, request.command())
        self.users.allow(RIGHT, [entry(name, actions[0]) for name, actions in wanted.items()])
        got = {}
        for name, keys in CREDENTIALS.items():
            self.prepare(request)
            got[name] = answers.kind(self.session.ask(request.command(), keys))
        return {"code": request.code, "variant": request.variant, "needs": wanted, "answers": got}


def record(address: peer.Address, users: Users) -> list[Row]:
    """All rows, by code."""
    recorder = Recorder(address, users)
    rows = [(request, recorder.row(request)) for request in every()]
    recorder.session.close()
    rows.sort(key=lambda pair: (pair[0].code, pair[0].variant != PLAIN, pair[0].variant))
    return [row for _, row in rows]
