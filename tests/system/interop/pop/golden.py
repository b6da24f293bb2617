"""Makes tests/store/data/timers-5.5.0.txt: bytes of timers and pops as Apache's broker writes them.

    python -m tests.system.interop.pop.golden

Run by hand. Each line is a word for what it is, and its bytes in hex: `slot INDEX BYTES`, one of
the wheel; `unit POSITION BYTES`, one of the timer log; `check BYTES`, the check point; `record TAGS
BODY PROPERTIES`, what a pop, an acknowledgement or a change of the invisible time leaves in the
timer topic.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.support.client import Client
from tests.support.waiting import eventually

from .asking import Asker
from .pops import fill, take
from .requests import ACK, BATCH_ACK, CHANGE_INVISIBLE, RECALL, batch_ack, make_topic, timer
from .servers import broker
from .timers import TIMER_TOPIC, read

FILE = Path(__file__).resolve().parents[3] / "store" / "data" / "timers-5.5.0.txt"
SLOT, UNIT, CHECK = 32, 52, 56


def _write(client: Client) -> Iterator[str]:
    """Timers of each kind, and each kind of record of pops."""
    asker = Asker(client, "", "")
    make_topic(client, "T")
    for seconds in (600, 600, 7200, 2 * 86400, 3 * 86400 - 10):
        sent = client.request(timer("T", b"waits", TIMER_DELAY_SEC=seconds))
    recalled = {"producerGroup": "PG", "topic": "T", "recallHandle": sent.ext["recallHandle"]}
    asker.ask("", RECALL, recalled)
    client.request(timer("T", b"comes", TIMER_DELAY_SEC=1))
    fill(client, "Popped", "G", 7)
    one = take(asker, "", "Popped", "G", maxMsgNums=4, invisibleTime=600_000)
    asker.ask("", ACK, one.ack(1))
    asker.ask("", BATCH_ACK, {}, batch_ack(one.batch("DQ==")))
    tagged = take(asker, "", "Popped", "G", exp="T0", invisibleTime=600_000)
    asker.ask("", CHANGE_INVISIBLE, tagged.ack(1, invisibleTime=700_000))
    asker.ask("", CHANGE_INVISIBLE, tagged.ack(0, invisibleTime=700_000, suspend="true"))
    eventually(lambda: client.max_offset("T", 0) == 1, "one came")
    for record in read(client, TIMER_TOPIC):
        kind = record.properties.get("TAGS")
        if kind in KINDS:
            yield f"record {kind} {record.body.hex()} {record.properties_raw.hex()}"


KINDS = ("ck", "ack", "bAck")


def _files(store: Path) -> Iterator[str]:
    wheel = (store / "timerwheel").read_bytes()
    for index in range(len(wheel) // SLOT):
        slot = wheel[index * SLOT : (index + 1) * SLOT]
        if any(slot):
            yield f"slot {index} {slot.hex()}"
    log = (store / "timerlog" / f"{0:020}").read_bytes()
    for position in range(0, len(log), UNIT):
        unit = log[position : position + UNIT]
        if not any(unit):
            break
        yield f"unit {position} {unit.hex()}"
    check = (store / "config" / "timercheck").read_bytes()
    assert not any(check[CHECK:])
    yield f"check {check[:CHECK].hex()}"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        with broker("apache", Path(folder)) as started:
            with Client(started.address) as client:
                lines = list(_write(client))
            started.stop()
        lines = [*_files(Path(folder) / "broker" / "store"), *lines]
    FILE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
