"""Asks a broker, and keeps of each answer what does not change from run to run.

Times, ids, addresses and ports become words. A row is what was asked, in words, and the answer: its
code, remark, ext fields, and the records or the JSON of its body.
"""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Mapping
from typing import Any

from tests.support.client import Client
from tests.support.records import Record, decode_records
from tests.support.wire import Command

Row = dict[str, Any]
ORDERLY = "999"
_WORDS = (
    (r"\d+\.\d+\.\d+\.\d+(:\d+)?", "ADDRESS"),
    (r"\b(?:[0-9A-F]{32}|FD[0-9A-F]{54})\b", "ID"),
    (r"\b1[6-9]\d{11}\b", "TIME"),
    (r"\b1[6-9]\d{8}\b", "SECONDS"),
)
_REVIVE_QUEUES = {str(number) for number in range(8)}


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def words(text: str) -> str:
    """A text without what changes from run to run."""
    for pattern, word in _WORDS:
        text = re.sub(pattern, word, text)
    return text


def remark(text: str | None) -> str | None:
    """Without addresses, times, and what follows the first line of a Java exception."""
    if text is None:
        return None
    text = re.split(r"\n|<br>|\bSee https?:", text)[0]
    if failed := re.match(r"[\w.]+Exception", text):
        return failed[0]
    return words(text).strip()[:200]


def shown(record: Record) -> Row:
    """What a message tells, as words."""
    properties = {name: words(value) for name, value in sorted(record.properties.items())}
    if handle := properties.get("POP_CK"):
        start, at, invisible, _, *rest = handle.split(" ")
        properties["POP_CK"] = " ".join((start, at, invisible, "REVIVE", *rest))
    return {
        "topic": record.topic,
        "queue": record.queue_id,
        "offset": record.queue_offset,
        "reconsumed": record.reconsume_times,
        "body": words(record.body.decode(errors="replace")),
        "properties": properties,
    }


def _handle(text: str) -> str:
    """A recall handle, in clear."""
    padded = text + "=" * (-len(text) % 4)
    return words(base64.urlsafe_b64decode(padded).decode())


def _field(name: str, value: str) -> str:
    if name == "reviveQid" and value in _REVIVE_QUEUES:
        return "REVIVE"
    if name == "recallHandle":
        return _handle(value)
    if name == "invisibleTime" and 60_000 < int(value) < 90_000:
        return "a moment more than 60000"  # in order it counts from the time of the pop
    return words(value)


def _body(answer: Command, *, records: bool) -> Any:
    if records:
        return [shown(record) for record in decode_records(answer.body)]
    try:
        return json.loads(words(answer.body.decode()))
    except ValueError:
        return f"{len(answer.body)} bytes"


class Asker:
    """One connection to a broker, and the rows of what was asked over it."""

    def __init__(self, client: Client, part: str, peer: str) -> None:
        self.client = client
        self.peer = peer
        self.part = part
        self.rows: list[Row] = []

    def ask(
        self,
        what: str,
        code: int,
        ext: Mapping[str, object],
        body: bytes = b"",
        *,
        timeout: float = 10.0,
    ) -> Command:
        """Asks and makes a row of the answer; a field of None is left out."""
        present = {name: str(value) for name, value in ext.items() if value is not None}
        answer = self.client.request(Command(code, present, body), timeout)
        self.note(what, code, answer)
        return answer

    def call(self, code: int, ext: Mapping[str, object]) -> Command:
        """Asks without a row."""
        present = {name: str(value) for name, value in ext.items()}
        return self.client.request(Command(code, present))

    def note(self, what: str, code: int, answer: Command) -> None:
        row: Row = {"what": f"{self.part}: {what}", "request": code, "code": answer.code}
        if text := remark(answer.remark):
            row["remark"] = text
        fields = {name: _field(name, value) for name, value in sorted(answer.ext.items())}
        if "recallHandle" in fields:
            fields["queueOffset"] = "OF THE TIMER TOPIC"
        if fields:
            row["ext"] = fields
        if answer.body:
            row["body"] = _body(answer, records=code in (200050, 200052, 11))
        self.rows.append(row)

    def seen(self, what: str, value: Any) -> None:
        """A row of something that was found, beside the answers."""
        self.rows.append({"what": f"{self.part}: {what}", "seen": value})
