"""Makes tests/store/data/formats-5.3.3.tar.gz: each file format as Apache RocketMQ 5.3.3 writes it.

    python -m tests.system.interop.store.make_golden

Run by hand, and only when a format has to be added: the archive is committed, and what is in it is
described beside it. Three stores, each stopped cleanly: `broker/` by a broker and its clients,
`direct/` and `crc/` by java/…/Writer.java. `expected.json` is what was sent, what was answered,
and what the official client read and found by key afterwards.
"""

from __future__ import annotations

import base64
import io
import json
import tarfile
import tempfile
import time
import zlib
from pathlib import Path
from typing import Any

from tests.support.client import HEART_BEAT, UPDATE_CONSUMER_OFFSET, Client, batch_command
from tests.support.waiting import eventually
from tests.support.wire import Command

from . import peer
from .tool import Tool

ARCHIVE = Path(__file__).resolve().parents[3] / "store" / "data" / "formats-5.3.3.tar.gz"
CONF = """\
mappedFileSizeCommitLog=4096
mappedFileSizeConsumeQueue=200
mapperFileSizeBatchConsumeQueue=138
enableConsumeQueueExt=true
mappedFileSizeConsumeQueueExt=160
enableCalcFilterBitMap=true
enablePropertyFilter=true
maxHashSlotNum=16
maxIndexNum=24
autoCreateTopicEnable=false
"""
PLAIN, INNER, GROUP, SQL_GROUP = "Plain", "Inner", "HALF", "SQL"
LONG_GROUP = "long-" + "g" * 150
CONSUMER_SEND_MSG_BACK = 36
DROPPED = {"abort.bak", "position-checkpoint"}


class Sender:
    """Sends to a broker and keeps what was sent with what was answered."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.sends: list[dict[str, Any]] = []

    def single(
        self, topic: str, queue_id: int, body: bytes, properties: dict[str, str], sys_flag: int = 0
    ) -> None:
        change = {"f": str(sys_flag), "h": "7", "g": "1700000000123"}
        answer = self.client.send(
            topic, body, queue_id=queue_id, properties=properties, change=change
        )
        self._told(answer, topic, [(body, properties)])

    def batch(self, topic: str, bodies: list[bytes], **own: str) -> None:
        messages = [(body, {"TAGS": "InBatch", "at": str(at)}) for at, body in enumerate(bodies)]
        answer = self.client.request(batch_command(topic, messages, properties=own))
        self._told(answer, topic, messages)

    def _told(
        self, answer: Command, topic: str, messages: list[tuple[bytes, dict[str, str]]]
    ) -> None:
        assert answer.code == 0, answer
        self.sends.append(
            {
                "topic": topic,
                "queueId": int(answer.ext["queueId"]),
                "queueOffset": int(answer.ext["queueOffset"]),
                "msgId": answer.ext["msgId"],
                "messages": [
                    {"body": base64.b64encode(body).decode(), "properties": properties}
                    for body, properties in messages
                ],
            }
        )


def sql_consumer(client: Client) -> None:
    """A consumer that wants `number > 3` of the main topic: its bits get into the queue files."""
    subscription = {
        "classFilterMode": False, "codeSet": [], "expressionType": "SQL92",
        "subString": "number > 3", "subVersion": 1, "tagsSet": [], "topic": PLAIN,
    }  # fmt: skip
    consumer = {
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "consumeType": "CONSUME_PASSIVELY",
        "groupName": SQL_GROUP, "messageModel": "CLUSTERING",
        "subscriptionDataSet": [subscription], "unitMode": False,
    }  # fmt: skip
    data = {"clientID": "sql@1", "consumerDataSet": [consumer], "producerDataSet": []}
    assert client.request(Command(HEART_BEAT, {}, json.dumps(data).encode())).code == 0


def until(client: Client, topic: str, queue_id: int, end: int) -> None:
    what = f"{end} messages in queue {queue_id} of {topic}"
    eventually(lambda: client.max_offset(topic, queue_id), what, until=lambda found: found >= end)


def fill(broker: peer.RealBroker, namesrv: str, tool: Tool) -> dict[str, Any]:
    """Sends everything to a broker that runs; what `expected.json` says of its store."""
    address = broker.name_and_port
    tool.make_topic(namesrv, address, PLAIN, 2)
    tool.make_topic(namesrv, address, INNER, 1, queue_type="BatchCQ")
    tool.make_group(namesrv, address, GROUP, 7)
    with Client(broker.address) as client:
        sql_consumer(client)
        sender = Sender(client)
        for number in range(12):
            properties = {"number": str(number), "UNIQ_KEY": f"{number:032X}"}
            if number % 3:
                properties["TAGS"] = ("TagA", "CANCELLED", "标签")[number % 3]
            if number % 2:
                properties["KEYS"] = f"order-{number} shared"
            sender.single(PLAIN, 0, b"number %d " % number * 9, properties)
        packed = zlib.compress(b"a line that compresses well " * 200)
        sender.single(PLAIN, 1, packed, {"UNIQ_KEY": f"{100:032X}"}, 0x301)
        sender.batch(PLAIN, [b"first", b"second", b"third"])
        for first in (0, 3, 6, 9):
            bodies = [b"inner %d" % n for n in range(first, first + 3)]
            sender.batch(INNER, bodies, UNIQ_KEY=f"{200 + first:032X}")
        for level in ("1", "18"):
            sender.single(PLAIN, 1, b"level " + level.encode(), {"DELAY": level})
        until(client, PLAIN, 1, 2)
        back = client.pull_all(PLAIN, 0, 0, 1)[0]
        answer = client.call(
            CONSUMER_SEND_MSG_BACK,
            group=LONG_GROUP,
            offset=back.physical_offset,
            delayLevel=1,
            originMsgId=back.offset_msg_id,
            originTopic=PLAIN,
            unitMode="false",
            maxReconsumeTimes=16,
        )
        assert answer.code == 0, answer
        until(client, "%RETRY%" + LONG_GROUP, 0, 1)
        answer = client.call(
            UPDATE_CONSUMER_OFFSET, consumerGroup=GROUP, topic=PLAIN, queueId=0, commitOffset=6
        )
        assert answer.code == 0, answer
    with Client(("::1", broker.address[1])) as client:
        six = Sender(client)
        six.single(PLAIN, 0, b"over IPv6", {"TAGS": "TagA", "UNIQ_KEY": f"{300:032X}"})
        until(client, PLAIN, 0, 16)
    keys = ["order-1", "order-11", "shared", "order-2"]
    return {
        "conf": CONF.splitlines(),
        "sends": sender.sends + six.sends,
        "read": tool.read(namesrv, [PLAIN, INNER, "%RETRY%" + LONG_GROUP]),
        "byKey": {
            key: sorted([line["queueId"], line["queueOffset"]] for line in lines)
            for key, lines in tool.query(namesrv, PLAIN, keys).items()
        },
        "committed": {f"{PLAIN}@{GROUP}": {"0": 6}},
        "config": tool.describe(namesrv, address, [PLAIN, INNER], [GROUP]),
        "sql": {"group": SQL_GROUP, "topic": PLAIN, "expression": "number > 3"},
    }


def pack(folder: Path, expected: dict[str, Any]) -> None:
    """The stores and `expected.json`, without owners and times of files."""
    with tarfile.open(ARCHIVE, "w:gz", compresslevel=9) as archive:
        for path in sorted(folder.rglob("*")):
            name = str(path.relative_to(folder))
            if path.is_file() and path.name not in DROPPED:
                add(archive, name, path.read_bytes())
        add(archive, "expected.json", json.dumps(expected, indent=1, ensure_ascii=False).encode())


def add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="golden-") as text:
        folder, stores = Path(text), Path(text) / "stores"
        with (
            peer.NameServer(folder / "namesrv") as names,
            Tool(folder / "tool") as tool,
            peer.RealBroker(stores / "broker", names.address, CONF, home=folder / "home") as broker,
        ):
            expected = {"broker": fill(broker, names.address, tool)}
            time.sleep(11)  # offsets, delays and filters are written after 10 s for the first time
            broker.terminate()
        for name in ("direct", "crc"):
            told = peer.run(folder / "home", "interop.store.Writer", str(stores / name), name)
            lines = [line for line in told.splitlines() if line.startswith("{")]
            expected[name] = {"puts": [json.loads(line) for line in lines]}
        pack(stores, expected)
    print(f"{ARCHIVE}: {ARCHIVE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
