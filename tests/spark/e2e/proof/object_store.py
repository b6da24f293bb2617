"""An object store on loopback that serves a folder as bucket `shipped`: enough of S3 to list and
to read ranges, for pyarrow's own S3 client. Nothing is signed for and nothing can be written.
"""

from __future__ import annotations

import email.utils
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET = "shipped"


class ObjectStore:
    """A context; `uri` is what a reader is given for a path below the folder."""

    def __init__(self, folder: Path) -> None:
        self.asked: list[str] = []

        class Handler(_Handler):
            root = folder.resolve()
            asked = self.asked

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, name="object store")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def uri(self, path: str) -> str:
        where = f"127.0.0.1:{self._server.server_port}"
        return (
            f"s3://reader:secret@{BUCKET}/{path}"
            f"?scheme=http&region=us-east-1&endpoint_override={where}"
        )


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    root: Path
    asked: list[str]

    def log_message(self, *_: Any) -> None:
        """Not to stderr."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
        words = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if bucket != BUCKET:
            self._answer(404, b"<Error><Code>NoSuchBucket</Code></Error>")
        elif not key:
            self._list(words.get("prefix", ""), words.get("delimiter", ""))
        else:
            self._object(key)

    def _answer(self, code: int, body: bytes, **headers: str) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", headers.get("length", str(len(body))))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def _list(self, prefix: str, delimiter: str) -> None:
        contents, folders = [], set()
        for path in sorted(self.root.rglob("*")):
            key = str(path.relative_to(self.root))
            if path.is_dir() or not key.startswith(prefix):
                continue
            rest = key[len(prefix) :]
            if delimiter and delimiter in rest:
                folders.add(prefix + rest.partition(delimiter)[0] + delimiter)
            else:
                contents.append(
                    f"<Contents><Key>{escape(key)}</Key><Size>{path.stat().st_size}</Size>"
                    "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
                )
        prefixes = "".join(
            f"<CommonPrefixes><Prefix>{escape(f)}</Prefix></CommonPrefixes>"
            for f in sorted(folders)
        )
        text = (
            '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult>'
            f"<Name>{BUCKET}</Name><KeyCount>{len(contents) + len(folders)}</KeyCount>"
            f"<IsTruncated>false</IsTruncated>{''.join(contents)}{prefixes}</ListBucketResult>"
        )
        self._answer(200, text.encode(), Content_Type="application/xml")

    def _object(self, key: str) -> None:
        path = self.root / key
        if not path.is_file():
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
            return
        data = path.read_bytes()
        facts = {
            "Last_Modified": email.utils.formatdate(1_760_000_000, usegmt=True),
            "ETag": '"0"',
            "Accept_Ranges": "bytes",
        }
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if asked is None:
            self._answer(200, data, **facts)
            return
        first, last = int(asked[1]), min(int(asked[2] or len(data)), len(data) - 1)
        if first > last:
            self._answer(416, b"<Error><Code>InvalidRange</Code></Error>")
            return
        self.asked.append(key)
        span = f"bytes {first}-{last}/{len(data)}"
        self._answer(206, data[first : last + 1], Content_Range=span, **facts)
