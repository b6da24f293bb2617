"""Keys that change while a broker runs take effect wherever they are used."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import trio
from trio.testing import MockClock

import pyrmq
from pyrmq.broker.config.broker_config import BrokerConfig, LiveConfig
from pyrmq.config.table import keys_of

LIVE = {field for field, row in keys_of(BrokerConfig).values() if row.live}
HOLDERS = {"config", "_config", "broker_config"}
AT_START = {
    ("broker/tables/topics.py", "auto_create_topic_enable"),
    ("broker/tables/topics.py", "enable_topic_message_type_check"),
}
"""Read of what TopicTable keeps: it is given what changes (set_auto_create, configure)."""


def kept_reads(source: str) -> Iterator[tuple[int, str]]:
    """Where a live key is read of a configuration that an object keeps: `self._config.key`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in LIVE:
            owner = node.value
            if isinstance(owner, ast.Attribute) and owner.attr in HOLDERS:
                yield node.lineno, node.attr


def test_a_read_of_a_kept_configuration_is_seen() -> None:
    assert list(kept_reads("if self._config.broker_permission: pass")) == [(1, "broker_permission")]
    assert list(kept_reads("if self._config.now.broker_permission: pass")) == []
    assert list(kept_reads("if self._config.broker_name: pass")) == []


def test_live_keys_are_read_from_what_is_now() -> None:
    folder = Path(pyrmq.__file__).parent
    found = {
        (str(path.relative_to(folder)), field)
        for path in folder.rglob("*.py")
        for _, field in kept_reads(path.read_text(encoding="utf-8"))
    }
    assert found == AT_START


def test_every_live_key_is_read_somewhere() -> None:
    folder = Path(pyrmq.__file__).parent / "broker"
    text = "".join(p.read_text() for p in folder.rglob("*.py") if p.name != "broker_config.py")
    text += (folder.parent / "config" / "log_keys.py").read_text()
    for field in LIVE:
        assert f".{field}" in text, field


def test_watchers_see_the_change_when_it_counts(config: BrokerConfig) -> None:
    live = LiveConfig(config)
    seen = []
    live.watch(lambda before, now: seen.append((before, now, live.now)))
    changed = replace(config, broker_permission=4)
    live.change(changed)
    assert seen == [(config, changed, changed)]


async def test_a_pause_follows_the_configuration(
    config: BrokerConfig, autojump_clock: MockClock
) -> None:
    live = LiveConfig(replace(config, transaction_metric_flush_interval=10_000))
    ends = []

    async def pause() -> None:
        await live.pause(lambda now: now.transaction_metric_flush_interval)
        ends.append(trio.current_time() - start)

    start = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pause)
        await trio.sleep(4)
        live.change(replace(live.now, transaction_metric_flush_interval=6_000))
    async with trio.open_nursery() as nursery:
        start = trio.current_time()
        nursery.start_soon(pause)
        await trio.sleep(5)
        live.change(replace(live.now, transaction_metric_flush_interval=20_000))
        await trio.sleep(2)
        live.change(replace(live.now, broker_permission=4))
    async with trio.open_nursery() as nursery:
        start = trio.current_time()
        nursery.start_soon(pause)
        await trio.sleep(5)
        live.change(replace(live.now, transaction_metric_flush_interval=1_000))
    assert ends == [6, 20, 5]
