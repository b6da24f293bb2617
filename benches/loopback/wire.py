"""One send over a plain socket: the first acknowledgement of a new server is timed with it."""

from __future__ import annotations

import json
import socket
import struct

SEND_MESSAGE_V2 = 310


def send_frame(topic: str, body: bytes) -> bytes:
    """A SEND_MESSAGE_V2 request with a JSON header, opaque 1, queue 0."""
    header = {
        "code": SEND_MESSAGE_V2,
        "extFields": {
            "a": "start-up",
            "b": topic,
            "c": "TBW102",
            "d": "4",
            "e": "0",
            "f": "0",
            "g": "1700000000000",
            "h": "0",
            "i": "UNIQ_KEY\x017F0000010001000000000000F1A5\x02WAIT\x01true\x02",
            "j": "0",
            "k": "false",
            "m": "false",
            "n": "broker-a",
        },
        "flag": 0,
        "language": "JAVA",
        "opaque": 1,
        "serializeTypeCurrentRPC": "JSON",
        "version": 479,
    }
    text = json.dumps(header, separators=(",", ":")).encode()
    return struct.pack(">II", 4 + len(text) + len(body), len(text)) + text + body


def _receive(sock: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = sock.recv(count - len(parts))
        if not part:
            raise ConnectionError("the broker closed the connection")
        parts += part
    return bytes(parts)


def send_once(addr: tuple[str, int], frame: bytes, timeout: float = 10.0) -> None:
    """Sends one prepared frame and waits for its answer; any code but 0 is an error."""
    with socket.create_connection(addr, timeout=timeout) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.sendall(frame)
        (total,) = struct.unpack(">I", _receive(sock, 4))
        answer = _receive(sock, total)
    (word,) = struct.unpack(">I", answer[:4])
    header = answer[4 : 4 + (word & 0xFFFFFF)]
    if word >> 24 == 0:
        code = json.loads(header)["code"]
    else:
        (code,) = struct.unpack(">h", header[:2])
    if code != 0:
        raise RuntimeError(f"the first send was answered with code {code}")
