"""Bodies as producers compress them, and the bits of sysFlag that say how.
[CompressionType, MessageSysFlag]

`lz4` and `zstandard` are imported when a body needs them.
"""

from __future__ import annotations

import zlib
from enum import Enum

from pyrmq.errors import ProtocolError

COMPRESSED = 0x1
COMPRESSION_MASK = 0x700
MAX_BODY = 64 << 20
"""Largest body after decompression, bytes: far above what brokers take."""
_PIECE = 1 << 20
"""Bytes of an LZ4 frame that are unpacked at a time."""
_USUAL_RATIO = 32
"""What more than this often expands to is unpacked in a second try."""


class CompressionType(Enum):
    """How a producer compresses. The numbers are bits of sysFlag; the text of a type is its
    name."""

    LZ4 = 0x100
    ZSTD = 0x200
    ZLIB = 0x300

    def __str__(self) -> str:
        return self.name

    @property
    def sys_flag(self) -> int:
        """The bits of a compressed body."""
        return COMPRESSED | self.value


_BY_BITS = {0: CompressionType.ZLIB} | {kind.value: kind for kind in CompressionType}


def compress(raw: bytes, kind: CompressionType, level: int) -> bytes:
    """A body as `kind` has it. LZ4 frames have no level."""
    if kind is CompressionType.ZLIB:
        return zlib.compress(raw, level)
    if kind is CompressionType.LZ4:
        import lz4.frame

        packed: bytes = lz4.frame.compress(raw)
        return packed
    import zstandard

    return zstandard.ZstdCompressor(level=level).compress(raw)


def decompress(raw: bytes, sys_flag: int, limit: int = MAX_BODY) -> bytes:
    """The body that `raw` is by its sysFlag. ProtocolError if it is not what the flag says, is cut
    short, or has more than `limit` bytes when it is unpacked."""
    if not sys_flag & COMPRESSED:
        return raw
    kind = _BY_BITS.get(sys_flag & COMPRESSION_MASK)
    if kind is None:
        raise ProtocolError(f"body compressed in a way that is not known (sysFlag {sys_flag:#x})")
    if kind is CompressionType.ZLIB:
        return inflate(raw, limit, "compressed body")
    return _unpack_lz4(raw, limit) if kind is CompressionType.LZ4 else _unpack_zstd(raw, limit)


def inflate(raw: bytes, limit: int, what: str) -> bytes:
    """The content of a zlib stream. ProtocolError, naming `what`, if it is none, is cut short, or
    has more than `limit` bytes."""
    if limit < 1:  # 0 means no limit to zlib
        raise ProtocolError(f"{what} has more than {limit} bytes")
    inflater = zlib.decompressobj()
    try:
        data = inflater.decompress(raw, limit)
    except zlib.error as e:
        raise ProtocolError(f"{what}: {e}") from e
    if inflater.unconsumed_tail:
        raise ProtocolError(f"{what} has more than {limit} bytes")
    if not inflater.eof:
        raise ProtocolError(f"{what} ends too early")
    return data


def _unpack_lz4(raw: bytes, limit: int) -> bytes:
    import lz4.frame

    frame = lz4.frame.LZ4FrameDecompressor()
    pieces, size = [], 0
    try:
        piece = frame.decompress(raw, max_length=_PIECE)
        while piece and size <= limit:
            pieces.append(piece)
            size += len(piece)
            piece = b"" if frame.eof else frame.decompress(b"", max_length=_PIECE)
    except (RuntimeError, EOFError, ValueError) as e:
        raise ProtocolError(f"compressed body: {e}") from e
    if size > limit:
        raise ProtocolError(f"compressed body has more than {limit} bytes")
    if not frame.eof:
        raise ProtocolError("compressed body ends too early")
    return b"".join(pieces)


def _unpack_zstd(raw: bytes, limit: int) -> bytes:
    import zstandard

    try:
        # What a frame states is what is allocated: it is not believed. Java's frames state nothing.
        stated = zstandard.frame_content_size(raw)
        if stated > limit:
            raise ProtocolError(f"compressed body has more than {limit} bytes")
        unpack = zstandard.ZstdDecompressor().decompress
        usual = min(_USUAL_RATIO * len(raw), limit)
        try:
            return unpack(raw, max_output_size=usual)
        except zstandard.ZstdError:
            return unpack(raw, max_output_size=limit)
    except zstandard.ZstdError as e:
        raise ProtocolError(
            f"compressed body: {e} (it is damaged, or has more than {limit} bytes)"
        ) from e
