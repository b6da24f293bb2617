"""What the consumers of each group do with a message: check it, and tell the group's book."""

from __future__ import annotations

import zlib
from collections.abc import Callable

from tests.support.records import Record
from tests.support.transactions import COMMIT
from tests.system.crash import delay_load, load, transaction_load
from tests.system.crash.transaction_load import fate_of
from tests.system.soak import keyed
from tests.system.soak.delayed import is_early
from tests.system.soak.ledger import NOWHERE, Book
from tests.system.soak.plain import ONEWAY, stream_of
from tests.system.soak.settings import PLAIN
from tests.system.soak.world import World

Handle = Callable[[Record], int | None]
"""Deals with a message. Returns None if that worked, or the delay level to send it back with."""
MOST_RETRIES = 2
"""Times that a message is sent back, then it is a dead letter."""


def plain(world: World, book: Book) -> Handle:
    def handle(record: Record) -> None:
        _plain(world, book, record, record.physical_offset)

    return handle


def failing(world: World, book: Book) -> Handle:
    """Fails on some messages once or twice, on some always; these become dead letters."""
    chance = world.chance("levels of what is sent back")

    def handle(record: Record) -> int | None:
        key = load.key_of(record.body)
        if key.sender != ONEWAY and record.reconsume_times < failures(record.body):
            return chance.choice((0, 1, 2))
        place = record.physical_offset if record.topic == PLAIN else NOWHERE
        _plain(world, book, record, place)
        return None

    return handle


def failures(body: bytes) -> int:
    """How often consumers fail on a message."""
    mix = zlib.crc32(body[:20])
    return MOST_RETRIES + 1 if mix % 100 == 0 else {1: 1, 2: 2}.get(mix % 20, 0)


def dead_letter(world: World, book: Book, record: Record) -> None:
    """A message that consumers have failed on too often: it is not lost."""
    if record.reconsume_times <= MOST_RETRIES:
        book.note("dead letters too early", f"after {record.reconsume_times} retries")
    world.count("dead letters")
    _plain(world, book, record, NOWHERE)


def _plain(world: World, book: Book, record: Record, place: int) -> None:
    key = load.key_of(record.body)
    if record.body != load.body_of(key):
        book.note("damaged", f"{key}")
    elif key.sender == ONEWAY:
        world.count("one-way deliveries to two groups")
    else:
        book.delivered(stream_of(key.round, key.sender), key.number, place)


def by_key(
    book: Book, wants: Callable[[int], bool] = lambda number: True, what: str = "not wanted"
) -> Handle:
    """A message of tests/system/soak/keyed.py; `wants` says by its number whether it is meant."""

    def handle(record: Record) -> None:
        key = record.properties["UNIQ_KEY"]
        stream, number = keyed.parsed(key)
        if record.body != delay_load.body_of(key):
            book.note("damaged", key)
        if not wants(number):
            book.note(what, key)
        book.delivered(stream, number, record.physical_offset)

    return handle


def delayed(book: Book) -> Handle:
    known = by_key(book)

    def handle(record: Record) -> None:
        if is_early(record):
            book.note("early", record.properties["UNIQ_KEY"])
        known(record)

    return handle


def transaction(book: Book) -> Handle:
    def handle(record: Record) -> None:
        key = record.properties["UNIQ_KEY"]
        if record.body != transaction_load.body_of(key):
            book.note("damaged", key)
        if fate_of(key) != COMMIT:
            book.note("rolled back, but delivered", key)
        book.delivered(*keyed.parsed(key), record.physical_offset)

    return handle
