"""Signatures as clients make them, also those that sign another text than they should."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrmq.auth import signing
from pyrmq.auth.signing import MANY_BYTES, V4_9_3, is_signed
from pyrmq.engine import Command
from pyrmq.model.codes import RequestCode as Code
from tests.auth.unit.commands import command

FIELDS = {
    "a": "PG", "b": "TopicTest", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000",
    "h": "0", "i": "UNIQ_KEY\x01AC110001000118B4AAC200000000\x02WAIT\x01true\x02TAGS\x01TagA\x02",
    "j": "0", "k": "false", "m": "false", "n": "broker-a", "AccessKey": "rocketmq2",
}  # fmt: skip


def signed(text: str, body: bytes = b"", password: str = "pw") -> str:
    made = hmac.new(password.encode(), text.encode() + body, hashlib.sha1)
    return base64.b64encode(made.digest()).decode()


def query(
    text: str,
    extra: dict[str, str],
    language: str = "JAVA",
    version: int = 479,
) -> Command:
    """A query of topic T by user u whose signature is over `text`."""
    fields = {"AccessKey": "u", "topic": "T", **extra, "Signature": signed(text)}
    return command(Code.QUERY_MESSAGE, fields, language=language, version=version)


@pytest.mark.parametrize(
    ("token", "signature"),
    [({}, "unEJquYqbAuoGwa4bpx8b12cp/E="),
     ({"SecurityToken": "tok"}, "ibMx3XQKIVn20Bzse1fODNyOZCU=")],
)  # fmt: skip
def test_figures_of_rocketmqs_signer(token: dict[str, str], signature: str) -> None:
    fields = {**FIELDS, **token, "Signature": signature}
    asked = command(Code.SEND_MESSAGE_V2, fields, b"hello")
    assert is_signed(asked, "12345678")
    assert not is_signed(asked, "12345679")
    for name in fields:
        changed = {**fields, name: fields[name] + "1"}
        assert not is_signed(command(Code.SEND_MESSAGE_V2, changed, b"hello"), "12345678")
    assert not is_signed(command(Code.SEND_MESSAGE_V2, fields, b"hellp"), "12345678")


def test_names_are_ordered_by_utf16() -> None:
    fields = {"\U0001f600": "1", "\uff00": "2", "a": "3", "Z": "4", "AccessKey": "u"}
    fields["Signature"] = signed("u" + "4" + "3" + "1" + "2")
    assert is_signed(command(900, fields), "pw")


def test_no_signature_is_none() -> None:
    assert not is_signed(command(900, {"AccessKey": "u"}), "pw")
    assert not is_signed(command(900, {"AccessKey": "u", "Signature": ""}), "pw")
    assert not is_signed(command(900, {"AccessKey": "u", "Signature": "\U0001f600é"}), "pw")


def test_old_clients_do_not_sign_the_flag_of_a_query() -> None:
    flag = {"_UNIQUE_KEY_QUERY": "true"}
    assert is_signed(query("uT", flag, version=399), "pw")
    assert not is_signed(query("uT", flag, version=400), "pw")
    for version in (399, 479):
        assert is_signed(query("u" + "true" + "T", flag, version=version), "pw")


def test_zones_are_added_after_signing() -> None:
    zone = {"__ZONE_NAME": "z", "__ZONE_MODE": "true"}
    assert is_signed(query("uT", zone), "pw")
    assert is_signed(query("u" + "true" + "z" + "T", zone), "pw")
    assert not is_signed(query("uT", {"__OTHER": "z"}), "pw")


def test_a_go_client_does_not_sign_its_token_at_first() -> None:
    token = {"SecurityToken": "tok"}
    assert is_signed(query("uT", token, language="GO"), "pw")
    assert not is_signed(query("uT", token, language="JAVA"), "pw")


@pytest.mark.parametrize(
    ("size", "language", "most"),
    [(100, "GO", 32), (100_000, "JAVA", 2), (100_000, "GO", 8), (5 << 20, "GO", 2)],
)
def test_a_long_request_is_not_hashed_often(
    size: int, language: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reaches the port decides about all of this."""
    fields = {
        "AccessKey": "u", "Signature": "wrong", "SecurityToken": "tok", "__ZONE_NAME": "z",
        "_UNIQUE_KEY_QUERY": "true",
    }  # fmt: skip
    long = command(Code.QUERY_MESSAGE, fields, b"x" * size, language=language, version=V4_9_3)
    made: list[None] = []
    sign = signing._sign

    def counted(*args: Any) -> str:
        made.append(None)
        return sign(*args)

    monkeypatch.setattr(signing, "_sign", counted)
    assert not is_signed(long, "pw")
    assert len(made) == most


def test_a_go_client_signs_its_signature_when_it_sends_again() -> None:
    first = signed("uT")
    second = signed("u" + first + "T")
    assert is_signed(query("u" + first + "T", {}, language="GO"), "pw")
    assert is_signed(query("u" + second + "T", {}, language="GO"), "pw")
    assert not is_signed(query("u" + first + "T", {}, language="JAVA"), "pw")


def test_a_long_request_whose_zone_is_not_signed() -> None:
    zone = {"AccessKey": "u", "__ZONE_NAME": "z", "__ZONE_MODE": "true"}
    long = bytes(MANY_BYTES + 1)
    assert is_signed(command(900, {**zone, "Signature": signed("u", long)}, long), "pw")


def test_halves_of_surrogate_pairs_are_signed_as_java_encodes_them() -> None:
    assert signing._text({"a": "x\ud800y"}) == b"x?y"


@given(
    st.dictionaries(st.text("abZ_~", max_size=8), st.text(max_size=20), max_size=8),
    st.binary(max_size=64),
    st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=20),
)
def test_what_our_own_client_signs_is_right(
    fields: dict[str, str], body: bytes, secret: str
) -> None:
    assert is_signed(command(900, fields, body, by=("someone", secret)), secret)
    assert not is_signed(command(900, fields, body, by=("someone", secret)), secret + "x")
