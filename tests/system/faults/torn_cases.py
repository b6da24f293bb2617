"""What a crash or a power cut may leave of a store's tail, as a list of cases."""

from __future__ import annotations

import itertools
import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from tests.system.faults.bases import Base
from tests.system.faults.images import (
    SECTOR,
    Image,
    base_of,
    checkpoint,
    index_files,
    log_files,
    queue_files,
    zeroed,
)

LOG_SECTORS = 8
"""Sectors of the log's end that are lost in turn."""
Queues = Literal["as they were", "behind", "gone", "ragged"]
Place = tuple[str, int]
"""A sector: file name and where it starts (bytes)."""
Lie = tuple[Place, Place | int]
"""A sector with the content of another one, or of an earlier time: so many bytes, then zeros."""


@dataclass(frozen=True)
class Torn:
    """One image. `cut`: the log from this physical offset on is lost; `lost`: sectors that read
    as zero; `clean`: no `abort` file; `holes`: zeros at the end are not stored; `spare`: a log
    file was prepared ahead; `flushed`: records that the checkpoint calls durable, None: no
    checkpoint of its own (a clean stop leaves one); `lies`: sectors that were not flushed and have
    what they must not have."""

    base: str
    cut: int | None = None
    lost: tuple[Place, ...] = ()
    clean: bool = False
    holes: bool = False
    queues: Queues = "as they were"
    spare: bool = False
    flushed: int | None = None
    lies: tuple[Lie, ...] = ()


def apply(case: Torn, base: Base) -> Image:
    image = dict(base.stopped if case.clean else base.killed)
    durable = 0
    if case.flushed is not None:
        last = base.records[case.flushed - 1]
        image["checkpoint"] = checkpoint(last.record.store_timestamp, last.end)
        durable = last.end
    elif case.clean:
        durable = base_of(log_files(image)[-1])
    harm_queues(image, case.queues, durable, case.clean)
    if case.cut is not None:
        for name in log_files(image):
            image[name] = zeroed(image[name], max(case.cut - base_of(name), 0), base.log_size)
    for name, at in case.lost:
        if name in image:
            kept = durable_bytes(image[name], durable) if name.startswith("consumequeue/") else 0
            start = at - at % 20 if case.clean and name.startswith("consumequeue/") else at
            image[name] = zeroed(image[name], max(start, kept), at + SECTOR)
    whole = dict(image)
    for (name, at), what in case.lies:
        kept = 0
        if name.startswith("consumequeue/"):
            kept = durable_bytes(image[name], durable)
        elif name.startswith("commitlog/"):
            kept = durable - base_of(name)
        end = min(at + SECTOR, len(image[name]))
        if isinstance(what, int):
            image[name] = zeroed(image[name], max(at + what, kept), end)
        elif at >= kept:
            new = whole[what[0]][what[1] : what[1] + end - at].ljust(end - at, b"\0")
            image[name] = image[name][:at] + new + image[name][end:]
    if case.spare:
        spare = base_of(log_files(image)[-1]) + base.log_size
        image[f"commitlog/{spare:020d}"] = bytes(base.log_size)
    return image


def durable_bytes(content: bytes, durable: int) -> int:
    """The bytes of a queue file that hold entries of records below a physical offset. A sector
    that is lost has the content of its last flush, so these are there."""
    count = 0
    for phys, size, _ in struct.iter_unpack(">qiq", content):
        if size == 0 or phys >= durable:
            break
        count += 1
    return count * 20


def harm_queues(image: Image, how: Queues, durable: int, clean: bool) -> None:
    """Queues behind the log lack their last entries, the last file of some is missing too;
    ragged ones end in the middle of an entry. Without any queue, all are made anew.

    A crash tears entries, a clean stop does not: there an entry that lost its tag code only is
    taken for what it says (`test_torn_entries_after_a_clean_stop`)."""
    for n, names in enumerate(queue_files(image).values()):
        if how == "gone":
            for name in names:
                del image[name]
            continue
        last = names[-1]
        content = image[last]
        kept = durable_bytes(content, durable)
        end = -(-len(content.rstrip(b"\0")) // 20) * 20
        if how == "behind":
            image[last] = zeroed(content, max(end - 20 * (1 + n % 3), kept), len(content))
            if n % 4 == 3 and len(names) > 1 and not kept:
                del image[last]
        elif how == "ragged":
            torn = 13 if clean else (3, 8, 13)[n % 3]
            image[last] = zeroed(content, max(end - torn, kept), len(content))


def all_cases(base: Base) -> Iterator[Torn]:
    yield from cuts(base)
    yield from sectors(base)


def cuts(base: Base) -> Iterator[Torn]:
    """The log ends at every byte of its last three records."""
    half = len(base.records) // 2
    states: list[Queues] = ["as they were", "behind", "gone", "ragged"]
    for cut in range(base.records[-3].phys, base.end + 1):
        for n, (clean, holes) in enumerate(itertools.product((False, True), (False, True))):
            if clean and loses_topic(base, cut):
                continue  # whole by its lengths and CRC; its queue still knows it
            for queues in (states[(cut + n) % 4], states[(cut + n + 2) % 4]):
                flushed = half if not clean and (cut + len(queues)) % 2 else None
                yield Torn(base.name, cut, (), clean, holes, queues, cut % 3 == 0, flushed)


def loses_topic(base: Base, cut: int) -> bool:
    """Whether a cut takes the end of the topic and nothing else: there are no properties behind."""
    return any(
        not s.record.properties_raw and s.end - 2 - len(s.record.topic) <= cut < s.end - 2
        for s in base.records
    )


def sectors(base: Base) -> Iterator[Torn]:
    """Sectors of the tail are lost: one, each pair, and all from one on."""
    half = len(base.records) // 2
    places = tail_sectors(base)
    groups: list[tuple[Place, ...]] = [(place,) for place in places]
    groups += itertools.combinations(places, 2)
    groups += [tuple(places[n:]) for n in range(len(places) - 2)]
    groups += [tuple(places[:n]) for n in range(3, len(places))]
    for n, lost in enumerate(groups):
        harmless = any(loses_topic(base, base_of(f) + at) for f, at in lost if "commitlog" in f)
        for clean, flushed in ((False, None), (False, half), (True, None)):
            if clean and harmless:
                continue
            yield Torn(base.name, None, lost, clean, n % 2 == 1, flushed=flushed)


def tail_sectors(base: Base) -> list[Place]:
    """The log's last sectors, a blank record's among them, those of every queue's last two files,
    of the index and of the checkpoint."""
    found: list[Place] = []
    start = max(min(base.records[-3].phys, base.end - LOG_SECTORS * SECTOR), 0)
    for name in log_files(base.killed):
        first, last = max(start, base_of(name)), min(base.end, base_of(name) + base.log_size)
        if first < last:
            begin = (first - base_of(name)) // SECTOR * SECTOR
            found += [(name, at) for at in range(begin, last - base_of(name), SECTOR)]
    for names in queue_files(base.killed).values():
        for name in names[-2:]:
            stored = len(base.killed[name].rstrip(b"\0"))
            found += [(name, at) for at in range(0, stored, SECTOR)]
    for name in index_files(base.killed):
        found += [(name, at) for at in range(0, len(base.killed[name]), SECTOR)][:6]
    return [*found, ("checkpoint", 0)]


def lies(base: Base) -> Iterator[Torn]:
    """Sectors of queues, one or many, have the content of an earlier time, or of another place: of
    the same queue, another one, the log or the index. Those of the log's tail have that of an
    earlier time; what it says is the truth that all is compared with."""
    draw = random.Random(base.name)
    places = [place for place in tail_sectors(base) if place[0].startswith("commitlog/")]
    places += [
        (name, at)
        for names in queue_files(base.killed).values()
        for name in names
        for at in range(0, len(base.killed[name]), SECTOR)
    ]
    sources = [
        (name, at)
        for name, content in sorted(base.killed.items())
        for at in range(0, len(content.rstrip(b"\0")), SECTOR)
    ]

    def lie(place: Place) -> Lie:
        if place[0].startswith("commitlog/") or draw.random() < 0.3:
            return place, draw.randrange(SECTOR)
        same = [source for source in sources if source[0].split("/")[0] == "consumequeue"]
        return place, draw.choice(draw.choice((same, sources)))

    for count in (1, 1, 1, 2, 4, len(places) // 2, len(places)):
        for _ in range(len(places)):
            chosen = tuple(lie(place) for place in sorted(draw.sample(places, count)))
            for flushed in (None, len(base.records) // 2, len(base.records) - 2):
                yield Torn(base.name, flushed=flushed, lies=chosen, holes=draw.random() < 0.5)
