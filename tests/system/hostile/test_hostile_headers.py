"""Headers that parse but lie: unknown codes, wrong types, missing fields, nesting, huge maps."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.client import (
    GET_MAX_OFFSET,
    PULL_MESSAGE,
    Client,
    Closed,
    pull_command,
    send_command,
)
from tests.support.server import ServerProcess
from tests.support.wire import BINARY, JSON, Command, binary_header, encode, frame, json_header
from tests.system.hostile.probe import PATIENCE, assert_refused

BOTH = pytest.mark.parametrize("serialize", [JSON, BINARY], ids=["json", "binary"])


def raw_header(**fields: Any) -> bytes:
    """A SEND_MESSAGE_V2 JSON header with top-level keys replaced by any JSON value."""
    header = json.loads(json_header(send_command("TypeTopic")))
    return json.dumps(header | fields).encode()


@BOTH
@pytest.mark.parametrize("code", [0, 1, 13, 27, 301, 9999, 32767, -1, -32768])
@pytest.mark.parametrize("port", ["broker", "namesrv"])
def test_unknown_request_code(server: ServerProcess, port: str, code: int, serialize: int) -> None:
    """REQUEST_CODE_NOT_SUPPORTED with the request's opaque and serialize type."""
    with Client(getattr(server, port)) as client:
        answer = client.request(Command(code, {"a": "b"}, b"body", serialize=serialize))
        assert answer.code == 3
        assert client.request(Command(code, serialize=serialize)).code == 3


@BOTH
def test_unknown_oneway_is_not_answered(client: Client, serialize: int) -> None:
    client.oneway(Command(9999, serialize=serialize))
    bad = send_command("a/b", serialize=serialize)
    client.oneway(bad)
    assert client.send("GoodTopic").code == 0  # its answer is the first one to come


@pytest.mark.parametrize(
    "fields",
    [
        {"code": "send"}, {"code": {}}, {"code": []}, {"code": True}, {"code": None},
        {"code": 99_999_999_999}, {"code": 1.5},
        {"extFields": "text"}, {"extFields": [1, 2]}, {"extFields": 5}, {"extFields": None},
        {"extFields": {"b": {"c": {}}}}, {"extFields": {"b": [1, 2]}}, {"extFields": {"b": None}},
    ],
    ids=repr,
)  # fmt: skip
def test_wrong_types_in_the_header(server: ServerProcess, fields: dict[str, Any]) -> None:
    assert_refused(server.broker, frame(raw_header(**fields), b"x"))


def test_header_that_is_not_utf8(server: ServerProcess) -> None:
    """Java reads replacement characters; a close is as good."""
    assert_refused(server.broker, frame(b'{"code":9999,"remark":"\xff\xfe\x80"}'))


@pytest.mark.parametrize(
    "fields",
    [
        {"opaque": "x"}, {"opaque": 2**40}, {"opaque": None}, {"flag": []}, {"flag": "oneway"},
        {"version": "new"}, {"version": 2**70}, {"language": 77}, {"language": {}},
        {"language": "KLINGON"}, {"remark": 5}, {"remark": {"a": []}},
        {"serializeTypeCurrentRPC": "XML"}, {"unknown": {"a": [1, {"b": None}]}},
    ],
    ids=repr,
)  # fmt: skip
def test_wrong_types_that_may_be_tolerated(server: ServerProcess, fields: dict[str, Any]) -> None:
    """Java reads some of these; either way there is an answer or a close, in time."""
    with Client(server.broker) as client:
        client.send_raw(frame(raw_header(**fields), b"x"))
        try:
            client.receive(PATIENCE)
        except Closed:
            return


def test_what_third_party_clients_send_is_accepted(client: Client) -> None:
    """Numbers and booleans as ext values, a numeric string as code, unknown keys (sheet 1.6)."""
    header = json.loads(json_header(send_command("TypeTopic")))
    header["extFields"] |= {"e": 0, "d": 4, "m": False, "g": 1700000000000, "zz": None}
    header |= {"code": "310", "remark": "", "extra": {"x": [1, {"y": None}]}, "opaque": 9}
    client.send_raw(frame(json.dumps(header, indent=1).encode(), b"x"))
    answer = client.receive()
    assert (answer.code, answer.opaque) == (0, 9)


@BOTH
@pytest.mark.parametrize(
    "fields",
    [
        {"e": "abc"}, {"e": ""}, {"e": "1.5"}, {"e": "0x1"}, {"e": "99999999999999999999"},
        {"f": "x"}, {"g": "yesterday"}, {"d": "many"}, {"e": None}, {"b": None},
    ],
    ids=repr,
)  # fmt: skip
def test_wrong_types_in_send_fields(
    client: Client, fields: dict[str, str | None], serialize: int
) -> None:
    before = client.max_offset("GoodTopic", 0)
    answer = client.request(send_command("GoodTopic", serialize=serialize, change=fields))
    assert answer.code in (1, 29), f"{answer.code} {answer.remark}"
    assert client.max_offset("GoodTopic", 0) == before


@pytest.mark.parametrize("missing", ["consumerGroup", "topic", "queueId", "queueOffset"])
def test_missing_pull_fields(client: Client, missing: str) -> None:
    answer = client.request(pull_command("GoodTopic", 0, 0, change={missing: None}))
    assert answer.code not in (0, 19, 20, 21), answer
    assert answer.body == b""


@pytest.mark.parametrize(
    "fields",
    [
        {"queueId": "x"}, {"queueOffset": "first"}, {"maxMsgNums": "all"}, {"sysFlag": "0b1"},
        {"queueOffset": str(2**64)}, {"queueId": str(2**31)},
    ],
    ids=repr,
)  # fmt: skip
def test_wrong_types_in_pull_fields(client: Client, fields: dict[str, str]) -> None:
    answer = client.request(pull_command("GoodTopic", 0, 0, change=fields))
    assert answer.code not in (0, 19, 20, 21), answer


@pytest.mark.parametrize(
    "code",
    [
        *range(10, 37), *range(38, 50), 105, *range(200, 226), *range(300, 330), 343, 345, 351, 352,
        361, 400,
    ],
)  # fmt: skip
def test_every_code_without_its_fields(client: Client, code: int) -> None:
    """No fields, no body: an answer (or a close), never silence and never a stored message.

    37 is left out: an END_TRANSACTION of unknown state is not answered by design.
    """
    before = client.max_offset("GoodTopic", 0)
    try:
        answer = client.request(Command(code), timeout=PATIENCE)
    except Closed:
        return
    if code in (10, 310, 320, PULL_MESSAGE, GET_MAX_OFFSET):
        assert answer.code != 0, answer
    assert client.max_offset("GoodTopic", 0) == before


@pytest.mark.parametrize("depth", [200, 10_000, 1_000_000])
@pytest.mark.parametrize("shape", ["array", "object", "ext", "open"])
def test_deep_nesting(server: ServerProcess, shape: str, depth: int) -> None:
    """An unknown key may nest; however deep, it must not exhaust a stack."""
    nested = {
        "array": b"[" * depth + b"]" * depth,
        "object": b'{"a":' * depth + b"1" + b"}" * depth,
        "ext": b'{"b":' * depth + b"1" + b"}" * depth,
        "open": b"[" * depth,
    }[shape]
    key = b"extFields" if shape == "ext" else b"unknown"
    header = b'{"code":9999,"opaque":5,"' + key + b'":' + nested + b"}"
    answer = assert_refused(server.broker, frame(header))
    assert answer is None or answer.code in (1, 3)


@BOTH
@pytest.mark.parametrize("count", [40, 1_000, 100_000])
@pytest.mark.parametrize("code", [310, 9999])
def test_huge_ext_map(client: Client, code: int, count: int, serialize: int) -> None:
    """Unknown ext fields are ignored; a map no client sends may cost its connection instead."""
    extra = {f"unknown-{i}": f"{i}" for i in range(count)}
    command = send_command("GoodTopic", code=code, serialize=serialize, change=extra)
    try:
        answer = client.request(command, timeout=PATIENCE)
    except Closed:
        assert count > 40
    else:
        assert answer.code == (0 if code == 310 else 3)


@BOTH
def test_one_huge_value(client: Client, serialize: int) -> None:
    command = send_command("GoodTopic", serialize=serialize, change={"zz": "v" * 8_000_000})
    assert client.request(command, timeout=PATIENCE).code == 0
    command = Command(9999, remark="r" * 8_000_000, serialize=serialize)
    answer = client.request(command, timeout=PATIENCE)
    assert answer.code == 3
    assert len(answer.remark or "") < 10_000


def test_duplicate_binary_keys_last_one_counts(client: Client) -> None:
    """Java writes Send-V2 fields twice with equal values; with different ones the last wins."""
    command = send_command("GoodTopic", b"dup", serialize=BINARY)
    command.opaque = 5
    header = bytearray(binary_header(command))
    more = binary_header(Command(0, {"e": "2"}))[21:]
    size = int.from_bytes(header[17:21], "big") + len(more)
    header[17:21] = size.to_bytes(4, "big")
    client.send_raw(frame(bytes(header) + more, b"dup", BINARY))
    answer = client.receive()
    assert (answer.code, answer.ext["queueId"]) == (0, "2")


def test_truncated_pop_code_is_unsupported(client: Client) -> None:
    """POP_MESSAGE cut to 16 bits is 3442, which nobody takes: pops need JSON headers."""
    client.send_raw(encode(Command(200050, opaque=3, serialize=BINARY)))
    assert client.receive().code != 0
