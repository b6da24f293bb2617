"""Credentials: what they may be, that they stay secret, and that each way to sign is the same."""

from __future__ import annotations

import json
import logging
import pickle
import traceback
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrmq import ClientError, Credentials
from pyrmq.net.client.credentials import MAX_KEY, MAX_TOKEN, Signer
from pyrmq.net.client.requests import (
    SendHeader,
    SendRequest,
    queue_fields,
    send_fields,
)
from tests.support.signatures import signature
from tests.support.wire import Command

SECRET = "s3cret-words"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (("", SECRET), "access_key is empty"),
        (("me", ""), "secret_key is empty"),
        (("me", SECRET + "\n"), "secret_key contains a control character: is there the end of a"),
        (("me", SECRET + "\x85"), "secret_key contains a control character"),
        (("me", SECRET + "\ud800"), "secret_key contains a control character"),
        (("m\0e", SECRET), "access_key contains a control character"),
        (("me", SECRET * 1000), "secret_key has 12000 characters; at most 1024 are allowed"),
        (("m" * (MAX_KEY + 1), SECRET), "access_key has 1025 characters"),
        (("me", SECRET, "t" * (MAX_TOKEN + 1)), "security_token has 16385 characters"),
        (("me", SECRET, "t\r"), "security_token contains a control character"),
        (("me", SECRET.encode()), r"secret_key is a bytes; a text \(str\) is needed"),
        ((None, SECRET), "access_key is a NoneType"),
        (("me", SECRET, None), "security_token is a NoneType"),
    ],
)
def test_what_cannot_be_meant(given: tuple[Any, ...], text: str) -> None:
    with pytest.raises(ClientError, match=f"^{text}") as caught:
        Credentials(*given)
    assert SECRET not in str(caught.value)


def test_what_can_be_meant() -> None:
    assert Credentials("a", " b ü€ ").secret_key == " b ü€ "
    assert Credentials("a" * MAX_KEY, "b" * MAX_KEY, "c" * MAX_TOKEN)


def test_secrets_are_shown_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    own = Credentials("me", SECRET, "my-token")
    logging.getLogger("x").warning("%s %r %s", own, own, [own])
    try:
        raise ValueError(own)
    except ValueError as e:
        shown = "".join(traceback.format_exception(e))
        found = traceback.TracebackException.from_exception(e, capture_locals=True)
        shown += "".join(found.format())
    text = f"{own}{own!r}{[own]}{own.__class__}{caplog.text}{shown}{vars_of(Signer(own))!r}"
    assert "me" in text
    assert SECRET not in text
    assert "my-token" not in text


def vars_of(signer: Signer) -> str:
    return repr(signer)


def test_they_travel_to_tasks() -> None:
    own = Credentials("me", SECRET, "token")
    assert pickle.loads(pickle.dumps(own)) == own


def test_of_json() -> None:
    text = '{"accessKey":"me","secretKey":"s3cret-words"}'
    assert Credentials.from_json(text, "key") == Credentials("me", SECRET)


@pytest.mark.parametrize(
    "text",
    [
        SECRET,
        "{",
        "[" * 100_000,
        "[]",
        '{"accessKey":"me"}',
        '{"secretKey":"s3cret-words"}',
        '{"accessKey":"me","secretKey":""}',
        '{"accessKey":"me","secretKey":7}',
        '{"accessKey":"me","secretKey":"s3cret-words","more":1}',
        '{"accessKey":"me","secretKey":"s3cret-words\\n"}',
        '{"accessKey":"me","secretKey":"' + "x" * 70_000 + '"}',
    ],
)
def test_json_that_cannot_be_meant(text: str) -> None:
    with pytest.raises(ClientError, match=r"^theKey") as caught:
        Credentials.from_json(text, "theKey")
    assert SECRET not in str(caught.value)


texts = st.text(st.characters(blacklist_categories=("Cs",)), max_size=30)


@given(
    group=texts, topic=texts, properties=texts, broker=texts, body=st.binary(max_size=99),
    flag=st.integers(-(2**31), 2**31 - 1), queue=st.integers(0, 2**31 - 1), batch=st.booleans(),
    token=st.sampled_from(["", "tok"]),
    fields=st.sampled_from([None, {"nsd": "true", "ns": "shop"}]),
)  # fmt: skip
def test_a_send_is_signed_as_its_fields_are(
    group: str, topic: str, properties: str, broker: str, body: bytes,
    flag: int, queue: int, batch: bool, token: str, fields: dict[str, str] | None,
) -> None:  # fmt: skip
    """The text that is signed without parsing is that of the sorted fields, and what a server
    computes of what it gets."""
    header = SendHeader(group, topic, properties, flag=flag, batch=batch)
    signer = Signer(Credentials("me", SECRET, token), fields)
    fast = json.loads(f"{{{signer.signed_json(SendRequest(header, queue, broker), body)}}}")
    plain = send_fields(group, topic, properties, flag=flag, batch=batch)
    plain |= queue_fields(queue, broker) | {"g": header.born}
    assert fast == signer.signed(plain, body)
    assert fast["Signature"] == signature(Command(310, fast, body), SECRET)


def test_fields_of_an_earlier_signature_are_made_anew() -> None:
    own = Credentials("me", SECRET)
    once = own.signed({"topic": "T", "n": 5, "b": True}, b"x")
    assert own.signed(once, b"x") == once
    assert Credentials("you", SECRET).signed(once, b"x")["AccessKey"] == "you"
