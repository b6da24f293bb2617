"""Signatures, against the vector of the specification and against clients' habits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrmq.auth.plain import signing
from pyrmq.auth.plain.signing import MANY_BYTES, content, is_valid, signature
from pyrmq.net.client.credentials import Credentials

SECRET = "12345678"
FIELDS = {
    "AccessKey": "rocketmq2",
    "a": "PG",
    "b": "TopicTest",
    "c": "TBW102",
    "d": "4",
    "e": "0",
    "f": "0",
    "g": "1700000000000",
    "h": "0",
    "i": "UNIQ_KEY\x01AC110001000118B4AAC200000000\x02WAIT\x01true\x02TAGS\x01TagA\x02",
    "j": "0",
    "k": "false",
    "m": "false",
    "n": "broker-a",
}
BODY = b"hello"
SIGNED = "unEJquYqbAuoGwa4bpx8b12cp/E="
WITH_TOKEN = "ibMx3XQKIVn20Bzse1fODNyOZCU="


def test_the_vector_of_the_specification() -> None:
    assert is_valid({**FIELDS, "Signature": SIGNED}, BODY, 399, SECRET)
    with_token = {**FIELDS, "SecurityToken": "tok", "Signature": WITH_TOKEN}
    assert is_valid(with_token, BODY, 479, SECRET)


@pytest.mark.parametrize(
    "changed", [{"b": "Other"}, {"e": "1"}, {"Signature": SIGNED[:-2] + "F="}, {"Signature": ""}]
)
def test_what_was_changed_does_not_fit(changed: dict[str, str]) -> None:
    assert not is_valid({**FIELDS, "Signature": SIGNED, **changed}, BODY, 399, SECRET)


def test_other_bodies_secrets_and_no_signature_do_not_fit() -> None:
    signed = {**FIELDS, "Signature": SIGNED}
    assert not is_valid(signed, b"hellO", 399, SECRET)
    assert not is_valid(signed, BODY, 399, SECRET + " ")
    assert not is_valid(FIELDS, BODY, 399, SECRET)
    assert not is_valid({**FIELDS, "Signature": "\ud800é"}, BODY, 399, SECRET)


@pytest.mark.parametrize(
    "unsigned",
    [
        {"_UNIQUE_KEY_QUERY": "true"},
        {"__ZONE_NAME": "z", "__ZONE_MODE": "true"},
        {"SecurityToken": "tok"},
        {"_UNIQUE_KEY_QUERY": "true", "__ZONE_NAME": "z", "SecurityToken": "tok"},
    ],
)
@pytest.mark.parametrize("version", [399, 479])
def test_fields_that_some_clients_leave_out(unsigned: dict[str, str], version: int) -> None:
    assert is_valid({**FIELDS, **unsigned, "Signature": SIGNED}, BODY, version, SECRET)
    all_of_it = {**FIELDS, **unsigned}
    made = signature(content(all_of_it, BODY), SECRET)
    assert is_valid({**all_of_it, "Signature": made}, BODY, version, SECRET)


def test_no_other_field_may_be_left_out() -> None:
    assert not is_valid({**FIELDS, "z": "1", "Signature": SIGNED}, BODY, 479, SECRET)


def test_names_are_in_the_order_of_utf_16() -> None:
    """U+FF5E is below U+10000 by code point, and above its surrogates in UTF-16."""
    assert (
        content({"\uff5e": "2", "\U00010000": "1", "B": "b", "_": "u", "a": "a"}, b"!") == b"bua12!"
    )


@given(
    st.dictionaries(st.text(max_size=8), st.text(max_size=20), max_size=8),
    st.binary(max_size=64),
    st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=20),
)
def test_what_our_own_client_signs_is_valid(
    fields: dict[str, str], body: bytes, secret: str
) -> None:
    fields = {k: v for k, v in fields.items() if max(k, default="") < "\ud800"}
    signed = Credentials("someone", secret).signed(fields, body)
    assert is_valid(signed, body, 479, secret)


def test_a_long_body_is_hashed_twice_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many fields there are that some clients do not sign."""
    hashed: list[int] = []

    def counted(signed: bytes, secret: str) -> str:
        hashed.append(len(signed))
        return signature(signed, secret)

    monkeypatch.setattr(signing, "signature", counted)
    fields = {**FIELDS, "_UNIQUE_KEY_QUERY": "1", "__ZONE_NAME": "z", "SecurityToken": "t"}
    assert not is_valid({**fields, "Signature": "wrong"}, bytes(MANY_BYTES + 1), 399, SECRET)
    assert len(hashed) == 2
    hashed.clear()
    assert not is_valid({**fields, "Signature": "wrong"}, BODY, 479, SECRET)
    assert len(hashed) == 5


def test_halves_of_surrogate_pairs_are_signed_as_java_encodes_them() -> None:
    assert content({"a": "x\ud800y"}, b"") == b"x?y"
    assert not is_valid({**FIELDS, "b": "\udc00", "Signature": SIGNED}, BODY, 479, SECRET)
