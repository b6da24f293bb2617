"""Keys that were updated while a broker ran: what counts, and the file that keeps them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio

from pyrmq.broker.config import updates as config_updates
from pyrmq.broker.config.broker_config import BrokerConfig
from pyrmq.broker.config.updates import (
    FILE,
    ConfigUpdates,
    Update,
    load,
    with_updates,
)
from pyrmq.broker.tables import config_file
from pyrmq.config.table import keys_of
from pyrmq.errors import ConfigError
from tests.support.waiting import eventually_trio


@pytest.fixture
def file(config: BrokerConfig) -> Path:
    path = config.store_path_root_dir / FILE
    path.parent.mkdir(parents=True)
    return path


def saved(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text())["updates"]
    return found


def is_written(file: Path) -> bool:
    return file.exists()


async def test_an_update_counts_and_stays(config: BrokerConfig, file: Path) -> None:
    updates = ConfigUpdates(config, {})
    changes = await updates.update({"transactionCheckMax": "3"})
    assert changes == {"transactionCheckMax": ("15", "3")}
    assert updates.live.now == replace(config, transaction_check_max=3)
    assert saved(file) == {"transactionCheckMax": {"value": "3", "configured": "15"}}
    again = ConfigUpdates(config, {})
    assert again.live.now == updates.live.now
    assert again.version == updates.version
    assert again.version.counter == 1


async def test_nothing_is_written_where_nothing_changes(config: BrokerConfig, file: Path) -> None:
    updates = ConfigUpdates(config, {})
    assert await updates.update({"transactionCheckMax": "15", "traceOn": "true"}) == {}
    assert updates.version.counter == 0
    assert not is_written(file)


async def test_back_to_what_is_configured(config: BrokerConfig, file: Path) -> None:
    updates = ConfigUpdates(config, {})
    await updates.update({"brokerPermission": "4", "shortPollingTimeMills": "7"})
    await updates.update({"brokerPermission": "6"})
    assert set(saved(file)) == {"shortPollingTimeMills"}
    assert updates.version.counter == 2


async def test_a_later_edit_of_the_file_counts(
    config: BrokerConfig, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await ConfigUpdates(config, {}).update({"brokerPermission": "4", "transactionCheckMax": "3"})
    edited = replace(config, broker_permission=2)
    again = ConfigUpdates(edited, {})
    assert again.live.now == replace(edited, transaction_check_max=3)
    assert "brokerPermission: it was configured as 6 then and is no more" in caplog.text
    assert set(saved(file)) == {"transactionCheckMax"}
    # Also when the edit is taken back later: that is newer still.
    assert ConfigUpdates(config, {}).live.now.broker_permission == 6


async def test_what_is_pinned_goes_before_an_update(config: BrokerConfig, file: Path) -> None:
    await ConfigUpdates(config, {}).update({"brokerPermission": "4"})
    pinned = {"brokerPermission": "the variable X"}
    updates = ConfigUpdates(config, pinned)
    assert updates.live.now.broker_permission == 6
    assert saved(file) == {}
    why = updates.why_not("brokerPermission")
    assert (
        why == "brokerPermission is set by the variable X: change it there and restart the broker"
    )


@pytest.mark.parametrize(
    ("key", "word"),
    [
        ("brokerPermission", None),
        ("listenPort", "put it in broker.conf and restart"),
        ("storePathRootDir", "put it in broker.conf and restart"),
        ("adminAddressAllowList", "put it in broker.conf and restart"),
        ("brokerRole", "restart the broker"),
        ("enableLmq", "no other value"),
        ("sendMessageThreadPoolNums", "has no effect: there are no thread pools"),
    ],
)
def test_what_may_be_updated(config: BrokerConfig, key: str, word: str | None) -> None:
    why = ConfigUpdates(config, {}).why_not(key)
    if word is None:
        assert why is None
    else:
        assert why is not None
        assert why.startswith(key)
        assert word in why


def test_only_numbers_switches_and_choices_are_live() -> None:
    """No path, no address, no name, nothing that says who may do what."""
    for key, (field, row) in keys_of(BrokerConfig).items():
        if row.live and not row.choices and key != "logLevels":
            assert type(getattr(BrokerConfig(), field)) in (int, bool), key


async def test_a_disk_that_is_full_changes_nothing(
    config: BrokerConfig, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    updates = ConfigUpdates(config, {})
    await updates.update({"brokerPermission": "4"})

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(config_updates.config_file, "save", full)
        with pytest.raises(OSError, match="No space left"):
            await updates.update({"brokerPermission": "2"})
    assert updates.live.now.broker_permission == 4
    assert updates.version.counter == 1
    await updates.update({"shortPollingTimeMills": "7"})
    assert saved(file)["brokerPermission"]["value"] == "4"


async def test_one_after_the_other(config: BrokerConfig, file: Path) -> None:
    updates = ConfigUpdates(config, {})
    seen: list[int] = []
    updates.live.watch(lambda before, now: seen.append(now.transaction_check_max))
    async with trio.open_nursery() as nursery:
        for n in range(20, 30):
            nursery.start_soon(updates.update, {"transactionCheckMax": str(n)})
        nursery.start_soon(updates.update, {"shortPollingTimeMills": "7"})
    assert len(seen) == 11
    assert updates.version.counter == 11
    now = updates.live.now
    assert now.short_polling_time_mills == 7
    assert saved(file)["transactionCheckMax"]["value"] == str(now.transaction_check_max)
    assert ConfigUpdates(config, {}).live.now == now


@pytest.mark.parametrize(
    ("table", "word"),
    [
        ({"listenPort": {"value": "1", "configured": "2"}}, "listenPort cannot be updated"),
        ({"nonsense": {"value": "1", "configured": "2"}}, "nonsense cannot be updated"),
        ({"brokerPermission": {"value": "9", "configured": "6"}}, "brokerPermission=9"),
        ({"brokerPermission": {"value": 4, "configured": "6"}}, "brokerPermission cannot"),
        ({"brokerPermission": "4"}, "brokerPermission cannot"),
        ([], "updates is no object"),
    ],
)
def test_a_file_that_cannot_be_meant(
    config: BrokerConfig, file: Path, table: object, word: str
) -> None:
    """Nothing is left out silently: brokerPermission may be what keeps clients away."""
    file.write_text(json.dumps({"updates": table}))
    with pytest.raises(ConfigError, match=word) as caught:
        ConfigUpdates(config, {})
    assert str(file) in str(caught.value)


def test_without_a_file(config: BrokerConfig) -> None:
    version, found = load(config.store_path_root_dir / FILE)
    assert found == {}
    assert version.timestamp > 0
    assert with_updates(config, {}, {}).config == config


def test_updates_are_applied_without_writing(config: BrokerConfig, file: Path) -> None:
    updated = with_updates(config, {"brokerPermission": Update("4", "6")}, {})
    assert updated.config.broker_permission == 4
    assert not file.exists()


def block(file: Path) -> Path:
    """Has the file not be written, as a full disk does."""
    in_the_way = file.with_name(file.name + ".tmp")
    in_the_way.mkdir(parents=True)
    return in_the_way


async def test_a_drain_counts_where_nothing_can_be_saved(
    config: BrokerConfig, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    block(file)
    updates = ConfigUpdates(config, {})
    assert await updates.update({"brokerDrain": "WRITE"}) == {"brokerDrain": ("NONE", "WRITE")}
    await updates.update({"fileReservedTime": "1"})
    assert updates.live.now.file_reserved_time == 1
    assert updates.live.now.broker_drain == "WRITE"
    assert updates.unsaved
    assert "A restart forgets it" in caplog.text
    assert ConfigUpdates(config, {}).live.now.broker_drain == "NONE"


async def test_nothing_else_counts_then(config: BrokerConfig, file: Path) -> None:
    block(file)
    updates = ConfigUpdates(config, {})
    for values in (
        {"transactionCheckMax": "3"},
        {"transactionCheckMax": "3", "brokerDrain": "WRITE"},
    ):
        with pytest.raises(OSError):
            await updates.update(values)
    assert updates.live.now == config
    assert not updates.unsaved


async def test_it_is_saved_once_there_is_room(
    config: BrokerConfig, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config_updates, "RETRY", 0.001)
    tries = []
    save = config_file.save

    def counted(path: Path, content: dict[str, Any]) -> None:
        tries.append(path)
        save(path, content)

    monkeypatch.setattr(config_file, "save", counted)
    in_the_way = block(file)
    updates = ConfigUpdates(config, {})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(updates.run)
        await updates.update({"brokerDrain": "WRITE"})
        await eventually_trio(lambda: len(tries) >= 3, "it is tried again and again")
        assert updates.unsaved
        in_the_way.rmdir()
        await eventually_trio(lambda: not updates.unsaved, "it is saved")
        assert ConfigUpdates(config, {}).live.now.broker_drain == "WRITE"
        await eventually_trio(lambda: not updates._failed.is_set(), "nothing is tried any more")
        block(file)
        await updates.update({"brokerDrain": "NONE"})
        assert updates.unsaved, "bringing back counts as well"
        assert updates.live.now.broker_drain == "NONE"
        nursery.cancel_scope.cancel()


async def test_another_update_saves_it_too(config: BrokerConfig, file: Path) -> None:
    in_the_way = block(file)
    updates = ConfigUpdates(config, {})
    await updates.update({"brokerDrain": "WRITE"})
    in_the_way.rmdir()
    await updates.update({"transactionCheckMax": "3"})
    assert not updates.unsaved
    assert saved(file).keys() == {"brokerDrain", "transactionCheckMax"}
