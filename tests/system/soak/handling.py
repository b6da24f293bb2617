"""What the consumers of each group do with a message: check it, and tell the group's ledger."""

from __future__ import annotations

import zlib
from collections.abc import Callable

from tests.support.ledger import NOWHERE, Ledger, parsed
from tests.support.records import Record
from tests.support.transactions import COMMIT
from tests.system.crash import delay_load, load, transaction_load
from tests.system.crash.transaction_load import fate_of
from tests.system.soak.delayed import is_early
from tests.system.soak.plain import ONEWAY, stream_of
from tests.system.soak.settings import PLAIN
from tests.system.soak.shared import Shared

Handle = Callable[[Record], int | None]
"""Deals with a message. Returns None if that worked, or the delay level to send it back with."""
MOST_RETRIES = 2
"""Times that a message is sent back, then it is a dead letter."""


def plain(shared: Shared, ledger: Ledger) -> Handle:
    def handle(record: Record) -> None:
        _plain(shared, ledger, record, record.physical_offset)

    return handle


def failing(shared: Shared, ledger: Ledger) -> Handle:
    """Fails on some messages once or twice, on some always; these become dead letters."""
    chance = shared.chance("levels of what is sent back")

    def handle(record: Record) -> int | None:
        key = load.key_of(record.body)
        if key.sender != ONEWAY and record.reconsume_times < failures(record.body):
            return chance.choice((0, 1, 2))
        place = record.physical_offset if record.topic == PLAIN else NOWHERE
        _plain(shared, ledger, record, place)
        return None

    return handle


def failures(body: bytes) -> int:
    """How often consumers fail on a message."""
    mix = zlib.crc32(body[:20])
    return MOST_RETRIES + 1 if mix % 100 == 0 else {1: 1, 2: 2}.get(mix % 20, 0)


def dead_letter(shared: Shared, ledger: Ledger, record: Record) -> None:
    """A message that consumers have failed on too often: it is not lost."""
    if record.reconsume_times <= MOST_RETRIES:
        ledger.note("dead letters too early", f"after {record.reconsume_times} retries")
    shared.count("dead letters")
    _plain(shared, ledger, record, NOWHERE)


def _plain(shared: Shared, ledger: Ledger, record: Record, place: int) -> None:
    key = load.key_of(record.body)
    if record.body != load.body_of(key):
        ledger.note("damaged", f"{key}")
    elif key.sender == ONEWAY:
        shared.count("one-way deliveries to two groups")
    else:
        ledger.received(stream_of(key.round, key.sender), key.number, place)


def by_key(
    ledger: Ledger, wants: Callable[[int], bool] = lambda number: True, what: str = "not wanted"
) -> Handle:
    """A message of tests/system/soak/keyed.py; `wants` says by its number whether it is meant."""

    def handle(record: Record) -> None:
        key = record.properties["UNIQ_KEY"]
        stream, number = parsed(key)
        if record.body != delay_load.body_of(key):
            ledger.note("damaged", key)
        if not wants(number):
            ledger.note(what, key)
        ledger.received(stream, number, record.physical_offset)

    return handle


def delayed(ledger: Ledger) -> Handle:
    known = by_key(ledger)

    def handle(record: Record) -> None:
        if is_early(record):
            ledger.note("early", record.properties["UNIQ_KEY"])
        known(record)

    return handle


def transaction(ledger: Ledger) -> Handle:
    def handle(record: Record) -> None:
        key = record.properties["UNIQ_KEY"]
        if record.body != transaction_load.body_of(key):
            ledger.note("damaged", key)
        if fate_of(key) != COMMIT:
            ledger.note("rolled back, but delivered", key)
        ledger.received(*parsed(key), record.physical_offset)

    return handle
