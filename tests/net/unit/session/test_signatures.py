"""A listener with a keyring verifies the signatures of requests: who has signed a command."""

from __future__ import annotations

import json
import struct
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyrmq.engine import Keyring, Listener, RecvBuffer, Session
from tests.net.unit.session.exchange import new_session
from tests.net.unit.session.signing import (
    NOW,
    SECRETS,
    feed,
    sign,
    signature,
    subject_of,
    subjects,
)
from tests.support.client import send_command
from tests.support.thorough import examples
from tests.support.wire import BINARY, FLAG_RESPONSE, JSON, Command, encode, frame

VECTOR = {
    "a": "PG", "b": "TopicTest", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000",
    "h": "0", "i": "UNIQ_KEY\x01AC110001000118B4AAC200000000\x02WAIT\x01true\x02TAGS\x01TagA\x02",
    "j": "0", "k": "false", "m": "false", "n": "broker-a", "AccessKey": "rocketmq2",
}  # fmt: skip
"""A send that RocketMQ's AclSigner has signed, with the secret key 12345678."""


@pytest.fixture
def keyring() -> Keyring:
    ring = Keyring()
    ring.replace(SECRETS)
    return ring


@pytest.fixture
def session(keyring: Keyring) -> Session:
    return new_session(Listener(keyring=keyring))


def json_frame(pairs: str, body: bytes = b"", code: int = 17) -> bytes:
    return frame(f'{{"code":{code},"opaque":1,"extFields":{{{pairs}}}}}'.encode(), body)


def subject_of_frame(session: Session, data: bytes) -> str | None:
    assert session.feed_bytes(data, NOW) is None
    (found,) = subjects(session)
    return found


@pytest.mark.parametrize("serialize", [JSON, BINARY])
@pytest.mark.parametrize(
    ("token", "proof"),
    [
        ({}, "unEJquYqbAuoGwa4bpx8b12cp/E="),
        ({"SecurityToken": "tok"}, "ibMx3XQKIVn20Bzse1fODNyOZCU="),
    ],
)
def test_as_java_signs(serialize: int, token: dict[str, str], proof: str) -> None:
    ring = Keyring()
    ring.replace({"rocketmq2": "12345678"})
    session = new_session(Listener(keyring=ring))
    ext = VECTOR | token | {"Signature": proof}
    for _ in range(3):  # read field by field, then as a header of a known shape
        for fields in (ext, dict(reversed(ext.items()))):
            command = Command(310, fields, b"hello", serialize=serialize)
            assert subject_of(session, command) == "rocketmq2"
            assert subject_of(session, replace(command, body=b"hellp")) is None
            assert subject_of(session, replace(command, ext=fields | {"b": "TopicTesu"})) is None


def test_no_keyring_no_subject() -> None:
    session = new_session(Listener())
    assert subject_of(session, sign(Command(17, {"topic": "T"}))) is None


@pytest.mark.parametrize("serialize", [JSON, BINARY])
def test_who_cannot_be_verified(session: Session, serialize: int) -> None:
    command = Command(17, {"topic": "T", "a": "1"}, b"body", serialize=serialize)
    good = sign(command)
    assert subject_of(session, good) == "alice"
    assert subject_of(session, sign(command, "bob")) == "bob"
    proof = good.ext["Signature"]
    bad = [
        command,
        sign(command, "mallory"),
        sign(command, "alice", SECRETS["bob"]),
        replace(good, ext={k: v for k, v in good.ext.items() if k != "Signature"}),
        replace(good, ext={k: v for k, v in good.ext.items() if k != "AccessKey"}),
        replace(good, ext=good.ext | {"AccessKey": "bob"}),
        replace(good, ext=good.ext | {"topic": "U"}),
        replace(good, ext=good.ext | {"b": "more"}),
        replace(good, body=b"other"),
    ]
    bad += [
        replace(good, ext=good.ext | {"Signature": other})
        for other in ("", "=", proof[:-1], proof + "=", proof.swapcase(), proof[1:] + "=", "é" * 14,
                      "A" * 65536)
    ]  # fmt: skip
    for command in bad:
        assert subject_of(session, command) is None, command.ext
    assert subject_of(session, good) == "alice"


@pytest.mark.parametrize(
    "pairs",
    [
        '"a":"1","a":"2"',
        '"a":"2","a":"1"',
        '"AccessKey":"alice"',
        '"Signature":"x"',
        '"a":{"b":"1"}',
    ],
)
def test_a_name_twice_or_a_nested_value_is_nobodys(session: Session, pairs: str) -> None:
    """Readers may not agree on what such a header says."""
    for signed in ({}, {"a": "1"}, {"a": "2"}, {"a": "12"}, {"b": "1"}):
        proof = signature({"AccessKey": "alice", **signed}, b"", SECRETS["alice"])
        data = json_frame(f'"AccessKey":"alice",{pairs},"Signature":"{proof}"')
        nested = "{" in pairs
        # A nested value is no field for anybody.
        assert subject_of_frame(session, data) == ("alice" if nested and not signed else None)


def test_the_same_name_twice_in_a_binary_header(session: Session) -> None:
    command = replace(sign(Command(17, {"a": "1"})), serialize=BINARY)
    data = bytearray(encode(command))
    assert subject_of_frame(session, bytes(data)) == "alice"
    ext = b"".join(
        struct.pack(">H", len(k)) + k.encode() + struct.pack(">i", len(v)) + v.encode()
        for k, v in [*command.ext.items(), ("a", "1")]
    )
    header = encode(Command(17, serialize=BINARY))[8:-4] + struct.pack(">i", len(ext)) + ext
    assert subject_of_frame(session, frame(header, b"", BINARY)) is None


@pytest.mark.parametrize(
    ("written", "value"),
    [
        (r'"\u0041\u00e9\u20ac"', "Aé€"),
        (r'"\ud83d\ude00"', "😀"),
        (r'"a\"b\\c\/d\be\ff\ng\rh\t"', 'a"b\\c/d\be\ff\ng\rh\t'),
        ('"é😀"', "é😀"),
        ("12", "12"),
        ("true", "true"),
        ("null", ""),
        ("''", ""),
    ],
)
def test_values_are_signed_as_they_are_meant(session: Session, written: str, value: str) -> None:
    proof = signature({"AccessKey": "alice", "v": value}, b"x", SECRETS["alice"])
    for _ in range(2):
        data = json_frame(f'"v":{written},"Signature":"{proof}","AccessKey":"alice"', b"x")
        assert subject_of_frame(session, data) == "alice"


def test_access_key_and_signature_may_be_escaped(session: Session) -> None:
    proof = signature({"AccessKey": "alice"}, b"", SECRETS["alice"])
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in proof)
    for sig in (escaped, proof.replace("=", "\\u003d"), proof.replace("/", "\\/")):
        data = json_frame(f'"AccessKey":"\\u0061lice","Signature":"{sig}"')
        assert subject_of_frame(session, data) == "alice"


def test_names_that_are_unusual_are_left_to_the_broker(session: Session) -> None:
    """Its order is that of UTF-16, which for such names is another one than that of their bytes."""
    for name in ("\ue000", "😀", "é"):
        assert subject_of(session, sign(Command(17, {name: "1"}))) is None
    proof = signature({"AccessKey": "alice", "a": "1"}, b"", SECRETS["alice"])
    data = json_frame(f'"\\u0061":"1","AccessKey":"alice","Signature":"{proof}"')
    assert subject_of_frame(session, data) is None


def test_answers_of_a_peer_are_nobodys(session: Session) -> None:
    assert subject_of(session, replace(sign(Command(17)), flag=FLAG_RESPONSE)) is None


def test_a_long_header_is_left_to_the_broker(session: Session) -> None:
    assert subject_of(session, sign(Command(17, {"a": "x" * 60_000}))) == "alice"
    assert subject_of(session, sign(Command(17, {"a": "x" * 70_000}))) is None


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 100_000, 3_000_000])
def test_bodies_of_all_sizes_in_pieces(session: Session, size: int) -> None:
    data = encode(sign(Command(17, {"a": "1"}, bytes(size)), "bob"))
    buffer = RecvBuffer(70_000)
    left = memoryview(data)
    while left:
        if (place := session.space()) is not None:
            n = min(len(place), len(left))
            memoryview(place)[:n] = left[:n]
            session.filled(n)
            n, left = 0, left[n:]
        else:
            n = min(len(left), 65_536)
            memoryview(buffer)[:n] = left[:n]
            left = left[n:]
        session.feed(buffer, n, NOW)
    assert subjects(session) == ["bob"]


def test_each_of_many_requests_at_once_has_its_signer(session: Session) -> None:
    names = ["alice", None, "bob", "wrong"]
    commands, expected = [], []
    for n in range(60):
        name = names[n * 7 % 11 % 4]
        plain = Command(17, {"n": str(n), "opaque": "x" * (n % 9)}, bytes(n * 50), opaque=n)
        secret = SECRETS["bob"] if name == "wrong" else None
        signed = sign(plain, "alice" if name == "wrong" else name, secret) if name else plain
        commands.append(replace(signed, serialize=n % 3 == 0))
        expected.append(None if name == "wrong" else name)
    assert feed(session, *commands) == []
    assert subjects(session) == expected


def test_frames_behind_the_bound_of_commands_wait(session: Session) -> None:
    commands = [sign(Command(17, opaque=n), "bob") for n in range(150)]
    found: list[str | None] = []
    assert feed(session, *commands) == []
    while session.commands:
        assert session.commands <= 64
        found += subjects(session)
        assert session.feed_bytes(b"", NOW) is None
    assert found == ["bob"] * 150


@pytest.mark.parametrize("n", [0, 1, 15, 16, 40])
def test_what_comes_before_a_broken_frame_counts(session: Session, n: int) -> None:
    data = b"".join(encode(sign(Command(17, opaque=i))) for i in range(n))
    session.feed_bytes(data + frame(b"{no header", b""), NOW)
    assert session.error is not None
    assert subjects(session) == ["alice"] * n


def test_a_keyring_that_is_replaced(session: Session, keyring: Keyring) -> None:
    command = sign(Command(17))
    assert subject_of(session, command) == "alice"
    keyring.replace({"alice": "another-secret"})
    assert subject_of(session, command) is None
    assert subject_of(session, sign(Command(17), "alice", "another-secret")) == "alice"
    keyring.replace({})
    assert len(keyring) == 0
    assert subject_of(session, sign(Command(17), "alice", "another-secret")) is None


@pytest.mark.parametrize("change", ["replace", "revoke"])
def test_a_command_that_waits_while_the_keyring_changes(
    session: Session, keyring: Keyring, change: str
) -> None:
    """What was verified before has to be verified again, by the broker."""
    assert feed(session, sign(Command(17)), sign(Command(18))) == []
    first = session.next_command()
    assert first is not None
    assert first.subject == "alice"
    if change == "replace":
        keyring.replace(SECRETS)
    else:
        keyring.revoke()
    second = session.next_command()
    assert second is not None
    assert second.subject is None
    assert subject_of(session, sign(Command(17))) == "alice"


def test_keys_that_cannot_be(keyring: Keyring) -> None:
    before = keyring.generation()
    for keys in ({"": "secret"}, {"a": ""}, {"a": "x" * 1025}, {"x" * 1025: "secret"}):
        with pytest.raises(ValueError, match="key"):
            keyring.replace({"b": "secret", **keys})
    with pytest.raises(ValueError, match="65536") as error:
        keyring.replace({str(n): "sesame" for n in range(65_537)})
    assert "sesame" not in str(error.value)
    assert (keyring.generation(), len(keyring)) == (before, 2)
    assert "secret" not in repr(keyring)


names = st.text(
    st.characters(codec="ascii", categories=("L", "N"), include_characters="_-."), min_size=1
)
values = st.text(st.characters(codec="utf-8"), max_size=80)


@given(
    st.dictionaries(
        names.filter(lambda n: n not in ("AccessKey", "Signature")), values, max_size=20
    ),
    st.binary(max_size=300),
    st.sampled_from([JSON, BINARY]),
    st.booleans(),
    st.integers(0, 40),
    st.randoms(use_true_random=False),
)
@settings(max_examples=examples(300))
def test_what_python_signs_is_verified_and_nothing_else(
    ext: dict[str, str], body: bytes, serialize: int, ascii_only: bool, at: int, chance: object
) -> None:
    ring = Keyring()
    ring.replace(SECRETS)
    session = new_session(Listener(keyring=ring))
    fields = list(sign(Command(17, ext, body), "bob").ext.items())
    chance.shuffle(fields)  # type: ignore[attr-defined]
    command = Command(17, dict(fields), body, serialize=serialize)
    if serialize == JSON and ascii_only:
        header = json.dumps({"code": 17, "extFields": command.ext}).encode()
        data = frame(header, body)
    else:
        data = encode(command)
    assert subject_of_frame(session, data) == "bob"
    assert subject_of_frame(session, data) == "bob"
    # Another body.
    other = bytearray(body or b"x")
    other[at % len(other)] ^= 1
    assert subject_of(session, replace(command, body=bytes(other))) is None
    # Another value of a field, unless the values joined are the same.
    name, value = fields[at % len(fields)]
    changed = replace(command, ext=command.ext | {name: value + "x"})
    assert subject_of(session, changed) is None


def test_a_send_with_a_signature_has_its_frame(session: Session) -> None:
    command = sign(send_command("T"))
    assert feed(session, command) == []
    taken = session.next_command()
    assert taken is not None
    assert (taken.subject, taken.frame) == ("alice", encode(command))
