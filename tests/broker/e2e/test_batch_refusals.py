"""Batches that a broker refuses: the answer names the message and the limit."""

from __future__ import annotations

import struct

import pytest

from tests.support.client import Client, batch_command
from tests.support.operators import create_topic

MESSAGE_ILLEGAL = 13


def member(body: bytes, properties: bytes) -> bytes:
    """One message of a batch body, with the length of its properties as 16 bits."""
    size = 22 + len(body) + len(properties)
    head = struct.pack(">iiiii", size, 0, 0, 0, len(body))
    return head + body + struct.pack(">H", len(properties)) + properties


@pytest.fixture
def topic(client: Client) -> str:
    assert create_topic(client, "Batches", 1).code == 0
    return "Batches"


def test_a_member_with_too_many_bytes_of_properties(client: Client, topic: str) -> None:
    command = batch_command(topic, [(b"x", {})])
    command.body = member(b"1", b"a\x01b\x02") + member(b"2", b"p\x01" + b"x" * 39_997 + b"\x02")
    answer = client.request(command)
    assert answer.code == MESSAGE_ILLEGAL
    assert answer.remark == (
        "message 2 of the batch: properties of 40000 bytes, at most 31743 are possible"
    )


def test_a_broken_member(client: Client, topic: str) -> None:
    command = batch_command(topic, [(b"x", {})])
    command.body = member(b"1", b"") + member(b"2", b"a\x01b\x02")[:-1]
    answer = client.request(command)
    assert (answer.code, answer.remark) == (
        MESSAGE_ILLEGAL,
        "batch body is broken at its message 2",
    )


def test_a_batch_in_a_transaction(client: Client, topic: str) -> None:
    command = batch_command(topic, [(b"x", {})])
    command.ext["i"] = "TRAN_MSG\x01true\x02"
    answer = client.request(command)
    assert answer.code == MESSAGE_ILLEGAL
    assert answer.remark == "property TRAN_MSG: a batch cannot be sent in a transaction"
