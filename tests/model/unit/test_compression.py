"""Bodies that other clients compressed: unpacked, bounded, and never lost without a word."""

from __future__ import annotations

import random
import zlib
from dataclasses import replace

import lz4.frame
import pytest
import zstandard

from pyrmq.errors import ProtocolError, UndecodableBodyError
from pyrmq.model.compression import CompressionType, compress, decompress
from pyrmq.model.record import ReceivedMessage, decode_record, decode_records
from tests.model.unit.test_message import SAMPLE
from tests.support import records

PLAIN = random.Random(1).randbytes(3000) + b"x" * 9000


def zstd_stream(data: bytes) -> bytes:
    """As Java's ZstdOutputStream has it: the frame does not state its size."""
    packer = zstandard.ZstdCompressor(level=5).compressobj()
    return packer.compress(data) + packer.flush()


PACKED = {
    "zlib": (0x301, zlib.compress(PLAIN)),
    "zlib of old clients": (0x1, zlib.compress(PLAIN)),
    "lz4": (0x101, lz4.frame.compress(PLAIN)),
    "zstd": (0x201, zstandard.compress(PLAIN)),
    "zstd stream": (0x201, zstd_stream(PLAIN)),
}


def received(sys_flag: int, body: bytes) -> ReceivedMessage:
    sample = replace(SAMPLE, sys_flag=sys_flag, body=body)
    return decode_record(memoryview(records.encode_record(sample)))


@pytest.mark.parametrize(("flag", "packed"), PACKED.values(), ids=PACKED)
def test_unpacked(flag: int, packed: bytes) -> None:
    message = received(flag, packed)
    assert message.body == message.raw_body == PLAIN
    assert message.body_error is None
    assert not message.sys_flag & 0x701


@pytest.mark.parametrize("kind", CompressionType)
def test_both_ways(kind: CompressionType) -> None:
    packed = compress(PLAIN, kind, 5)
    assert len(packed) < len(PLAIN)
    assert decompress(packed, kind.sys_flag) == PLAIN


def test_what_expands_a_lot() -> None:
    zeros = bytes(3 << 20)
    assert decompress(zstd_stream(zeros), 0x201) == zeros
    assert decompress(lz4.frame.compress(zeros), 0x101) == zeros


@pytest.mark.parametrize(
    ("flag", "body"),
    [
        (0x101, b"x" * 40),
        (0x201, b"x" * 40),
        (0x301, b"x" * 40),
        (0x401, zlib.compress(PLAIN)),
        *((flag, packed[:-5]) for flag, packed in PACKED.values()),
        *((flag, packed[:9]) for flag, packed in PACKED.values()),
    ],
)
def test_what_cannot_be_unpacked(flag: int, body: bytes) -> None:
    """The message is there; who reads its body learns why it cannot."""
    message = received(flag, body)
    for _ in range(2):
        with pytest.raises(UndecodableBodyError, match=f"body of message {message.msg_id}: .*raw_"):
            message.body  # noqa: B018
    assert isinstance(message.body_error, UndecodableBodyError)
    assert message.raw_body == body
    assert message.sys_flag & 0x701 == flag, "it is still compressed"
    assert message.msg_id in repr(message)
    assert message == message
    assert message.keys == ["a", "b"]


@pytest.mark.parametrize(
    "bomb",
    [
        (0x101, lz4.frame.compress(bytes(10_001))),
        (0x201, zstandard.compress(bytes(10_001))),
        (0x201, zstd_stream(bytes(10_001))),
        (0x301, zlib.compress(bytes(10_001))),
    ],
)
def test_bombs(bomb: tuple[int, bytes]) -> None:
    flag, packed = bomb
    assert decompress(packed, flag, 10_001) == bytes(10_001)
    with pytest.raises(ProtocolError, match="more than 10000 bytes"):
        decompress(packed, flag, 10_000)
    with pytest.raises(ProtocolError, match="more than 0 bytes"):
        decompress(packed, flag, 0)


def test_a_size_that_is_stated_is_not_believed() -> None:
    """A frame header that claims 2^62 bytes."""
    lie = zstandard.FRAME_HEADER + bytes([0xE0]) + (1 << 62).to_bytes(8, "little") + b"\x01\0\0"
    with pytest.raises(ProtocolError, match="more than"):
        decompress(lie, 0x201)


def test_one_of_several_records() -> None:
    """No damage is reported: what is behind it is read, and so is it."""
    bad = records.encode_record(replace(SAMPLE, sys_flag=0x101, body=b"no lz4"))
    good = records.encode_record(SAMPLE)
    first, second = decode_records(bad + good)
    assert first.body_error is not None
    assert second.body_error is None


def test_an_inner_batch_that_cannot_be_unpacked() -> None:
    (found,) = decode_records(
        records.encode_record(replace(SAMPLE, sys_flag=0x181, body=b"no lz4"))
    )
    assert found.body_error is not None
