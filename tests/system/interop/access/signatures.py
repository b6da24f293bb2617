"""Requests whose credentials are made in unusual ways, and what Apache's broker says of them.

All are a read of a queue's end (30) or a send (310) by the user `admin`, who may do both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.support.wire import BINARY, Command

from ..store import peer
from . import answers
from .requests import NOW, SEND_V2, TOPIC
from .signing import Session, loopback, signature, signed
from .users import ADMIN

Change = Callable[[Command], Command]
_READ = Command(30, {"topic": TOPIC, "queueId": "0"})
_SEND = Command(310, dict(SEND_V2), "hello ☃".encode())
_QUERY = Command(
    12, {"topic": TOPIC, "key": "K", "maxNum": "1", "beginTimestamp": "0", "endTimestamp": NOW}
)


def _after(**fields: str) -> Change:
    """Fields that change after signing."""
    return lambda command: replace(command, ext={**command.ext, **fields})


def _with(**fields: str) -> Change:
    """Further fields that are signed."""
    return lambda command: signed(replace(command, ext={**command.ext, **fields}), ADMIN)


def _sign(command: Command) -> Command:
    return signed(command, ADMIN)


def _without(name: str) -> Change:
    return lambda command: replace(
        command, ext={key: value for key, value in command.ext.items() if key != name}
    )


def _by(key: Callable[[str], object]) -> Change:
    """Signed with the fields in another order."""

    def sign(command: Command) -> Command:
        ext = {**command.ext, "AccessKey": ADMIN[0], "\uffee": "1", "\U00010000": "2", "é": "3"}
        text = "".join(ext[name] for name in sorted(ext, key=key)).encode() + command.body
        return replace(command, ext={**ext, "Signature": signature(ADMIN[1], {}, text)})

    return sign


def _old_query(number: int, *, signs: bool) -> Change:
    """The field _UNIQUE_KEY_QUERY, signed or not, from a client of that version."""

    def sign(command: Command) -> Command:
        flag = {"_UNIQUE_KEY_QUERY": "true"}
        if signs:
            return replace(_with(**flag)(command), version=number)
        return replace(_after(**flag)(signed(command, ADMIN)), version=number)

    return sign


def cases() -> dict[str, tuple[Command, list[Change]]]:
    """By name: a request, and what is done to it in turn."""
    return {
        "signed": (_READ, [_sign]),
        "signed, with a body": (_SEND, [_sign]),
        "binary header": (
            replace(_SEND, serialize=BINARY, ext={**SEND_V2, "i": "TAGS\x01A\x02"}),
            [_sign],
        ),
        "binary header, an empty value": (replace(_SEND, serialize=BINARY), [_sign]),
        "no Signature": (_READ, [_sign, _without("Signature")]),
        "blank Signature": (_READ, [_sign, _after(Signature="")]),
        "no AccessKey": (_READ, [_sign, _without("AccessKey")]),
        "blank AccessKey": (_READ, [_sign, _after(AccessKey="")]),
        "AccessKey in capitals": (_READ, [_sign, _after(AccessKey="ADMIN")]),
        "a field changed": (_READ, [_sign, _after(queueId="1")]),
        "a field more": (_READ, [_sign, _after(other="1")]),
        "body changed": (_SEND, [_sign, lambda command: replace(command, body=b"other")]),
        "SecurityToken, signed": (_READ, [_with(SecurityToken="token")]),
        "SecurityToken, not signed": (_READ, [_sign, _after(SecurityToken="token")]),
        "zone, not signed": (_READ, [_sign, _after(__ZONE_NAME="z", __ZONE_MODE="true")]),
        "zone, signed": (_READ, [_with(__ZONE_NAME="z", __ZONE_MODE="true")]),
        "Signature with a line end": (
            _READ,
            [_sign, lambda command: _after(Signature=command.ext["Signature"] + "\n")(command)],
        ),
        "fields in the order of UTF-16": (_READ, [_by(lambda name: name.encode("utf-16-be"))]),
        "fields in the order of code points": (_READ, [_by(lambda name: name)]),
        "_UNIQUE_KEY_QUERY not signed, 4.9.3": (_QUERY, [_old_query(399, signs=False)]),
        "_UNIQUE_KEY_QUERY signed, 4.9.3": (_QUERY, [_old_query(399, signs=True)]),
        "_UNIQUE_KEY_QUERY not signed, 4.9.4": (_QUERY, [_old_query(401, signs=False)]),
        "_UNIQUE_KEY_QUERY signed, 4.9.4": (_QUERY, [_old_query(401, signs=True)]),
        "one-way": (replace(_READ, flag=2), [_sign]),
        "one-way, not signed": (replace(_READ, flag=2), []),
        "sent twice": (_SEND, [_sign]),
    }


def record(address: peer.Address) -> list[dict[str, object]]:
    """On a broker that has the topic and the user `admin`."""
    rows: list[dict[str, object]] = []
    for number, (name, (command, changes)) in enumerate(cases().items()):
        session = Session(address, loopback(number), patience=1)
        for change in changes:
            command = change(command)
        answer = session.ask(command, None)
        if name == "sent twice":
            answer = session.ask(command, None)
        rows.append({"case": name, "code": command.code, "answer": answers.kind(answer)})
        session.close()
    return rows
