"""The table of filters with bits: its file, its limits, and that no message is missed."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from pyrmq.broker.bounds import LoopTime
from pyrmq.broker.config.broker_config import BrokerConfig
from pyrmq.broker.tables import consumer_filters, filter_data
from pyrmq.broker.tables.consumer_filters import ConsumerFilters, bitmap_len
from pyrmq.engine import Store
from pyrmq.errors import ConfigError, SubscriptionError
from pyrmq.model.subscription import SQL92, Subscription
from tests.store.tools import data, image
from tests.support import scratch
from tests.support.records import decode_records
from tests.support.thorough import examples

CONFIG = BrokerConfig(enable_consume_queue_ext=True, enable_calc_filter_bit_map=True)
FILE = "consumerFilter.json"


def open_store(root: Path) -> Store:
    return Store(
        root,
        queue_ext=True,
        bitmap_len=bitmap_len(CONFIG),
        commit_log_file_size=1 << 16,
        consume_queue_file_size=20 * 1000,
        queue_ext_file_size=1 << 16,
        index_enable=False,
    )


def put(store: Store, *numbers: int, topic: str = "T") -> None:
    for n in numbers:
        store.put(topic, 0, b"%d" % n, f"n\x01{n}\x02")


def wanted(expression: str, version: int = 1, topic: str = "T") -> dict[str, Subscription]:
    return {topic: Subscription.parse(topic, expression, version, SQL92)}


def found(store: Store, filters: ConsumerFilters, group: str, expression: str) -> list[int]:
    sql, numbers, offset = filters.of(group, "T", expression), [], 0
    while offset < store.queue_range("T", 0)[1]:
        result = store.get("T", 0, offset, sql=sql)
        numbers += [int(record.body) for record in decode_records(data(result))]
        offset = result.next_offset
    return numbers


def save(filters: ConsumerFilters, *, stopped: bool = False) -> dict[str, Any]:
    if stopped:
        filters.stopped()
    trio.run(filters.save_if_changed)
    content: dict[str, Any] = json.loads(filters.path.read_bytes())
    return content


class Opened:
    """A store and its filters."""

    def __init__(self, root: Path, config: BrokerConfig = CONFIG) -> None:
        self.store = open_store(root)
        put(self.store, 0)
        self.filters = ConsumerFilters(root / FILE, config, self.store)
        self.filters._time = LoopTime(1e9, 1e9)

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self.store.close()


def test_the_file(tmp_path: Path) -> None:
    """As RocketMQ's, but for bornOffset and logEnd. [ConsumerFilterManager]"""
    with Opened(tmp_path) as at:
        end = at.store.stats()["maxPhyOffset"]
        at.filters.subscribed("g1", wanted("n > 3", 7, "T"))
        assert save(at.filters)["logEnd"] == -1
        content = save(at.filters, stopped=True)
        data = content["filterDataByTopic"]["T"]["groupFilterData"]["g1"]
        assert content["filterDataByTopic"]["T"]["topic"] == "T"
        assert content["logEnd"] == end
        assert data.pop("bornTime") > 1_700_000_000_000
        assert data == {
            "bloomFilterData": {"bitNum": 112, "bitPos": data["bloomFilterData"]["bitPos"]},
            "bornOffset": end,
            "clientVersion": 7,
            "consumerGroup": "g1",
            "dead": False,
            "deadTime": 0,
            "expression": "n > 3",
            "expressionType": "SQL92",
            "topic": "T",
        }


def test_tags_and_what_does_not_compile_have_no_filter(tmp_path: Path) -> None:
    with Opened(tmp_path) as at:
        at.filters.subscribed("g", {"T": Subscription.parse("T", "a || b", 1)})
        at.filters.subscribed("h", wanted("n > 3"))
        at.filters.subscribed("h", wanted("n >", 2))
        assert save(at.filters)["filterDataByTopic"] == {}
        with pytest.raises(SubscriptionError):
            at.filters.of("h", "T", "n >")


def test_switched_off_nothing_is_kept(tmp_path: Path) -> None:
    """A file of before, or of RocketMQ's broker, stays as it is."""
    (tmp_path / FILE).write_text("not even JSON")
    with Opened(tmp_path, BrokerConfig()) as at:
        at.filters.subscribed("g", wanted("n > 3"))
        at.filters.look_again()
        trio.run(at.filters.save_if_changed)
        put(at.store, 3, 4)
        assert found(at.store, at.filters, "g", "n > 3") == [4]
    assert (tmp_path / FILE).read_text() == "not even JSON"


def test_it_needs_extension_files() -> None:
    with pytest.raises(ConfigError, match="needs enableConsumeQueueExt=true"):
        BrokerConfig(enable_calc_filter_bit_map=True)


@pytest.mark.parametrize("logged", [True, False], ids=["written last", "written before"])
def test_the_file_is_read_again(tmp_path: Path, logged: bool) -> None:
    """Filters of a file that was not written last count from where the log ends now."""
    with Opened(tmp_path) as at:
        at.filters.subscribed("g", wanted("n > 3"))
        put(at.store, 3, 4)
        before = save(at.filters, stopped=True)["filterDataByTopic"]["T"]["groupFilterData"]["g"]
        if not logged:
            at.filters.subscribed("g", wanted("n < 3", 2))  # the file does not tell of this
            put(at.store, 2, 5)
        end = at.store.stats()["maxPhyOffset"]
    store = open_store(tmp_path)
    try:
        filters = ConsumerFilters(tmp_path / FILE, CONFIG, store)
        assert found(store, filters, "g", "n > 3") == ([4] if logged else [4, 5])
        filters.subscribed("g", wanted("n > 3"))
        after = save(filters)["filterDataByTopic"]["T"]["groupFilterData"]["g"]
        if logged:
            assert after == before
        else:
            assert after["bornOffset"] == end
            assert after["bornTime"] > before["bornTime"]
    finally:
        store.close()


DAMAGE: list[dict[str, Any]] = [
    {"topic": 1},
    {"bloomFilterData": {"bitNum": 96, "bitPos": [1, 2, 3]}},
    {"bloomFilterData": {"bitNum": 112, "bitPos": [1, 2, 3]}},
    {"bloomFilterData": None},
]


@pytest.mark.parametrize("change", DAMAGE, ids=str)
def test_what_is_damaged_is_left_out(
    tmp_path: Path, change: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with Opened(tmp_path) as at:
        at.filters.subscribed("g", wanted("n > 3"))
        at.filters.subscribed("other", wanted("n > 3"))
        content = save(at.filters)
    content["filterDataByTopic"]["T"]["groupFilterData"]["g"] |= change
    (tmp_path / FILE).write_text(json.dumps(content))
    with Opened(tmp_path) as at:
        assert "1 of 2 filters are not taken over" in caplog.text
        at.filters.changed()
        assert set(save(at.filters)["filterDataByTopic"]["T"]["groupFilterData"]) == {"other"}


@pytest.mark.parametrize("change", [{"expression": "n =~ 3"}, {"expressionType": "NEW"}], ids=str)
def test_what_another_version_understands_is_kept(
    tmp_path: Path, change: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with Opened(tmp_path) as at:
        at.filters.subscribed("g", wanted("n > 3"))
        content = save(at.filters)
    row = content["filterDataByTopic"]["T"]["groupFilterData"]["g"]
    row |= change
    (tmp_path / FILE).write_text(json.dumps(content))
    with Opened(tmp_path) as at:
        assert "kept as they are, and not used: g of T" in caplog.text
        at.filters.subscribed("other", wanted("n > 3", topic="U"))
        assert save(at.filters)["filterDataByTopic"]["T"]["groupFilterData"] == {"g": row}
        at.filters.subscribed("g", wanted("n > 4"))
        taken = save(at.filters)["filterDataByTopic"]["T"]["groupFilterData"]["g"]
        assert taken["expression"] == "n > 4"


def test_who_is_gone_for_long_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_700_000_000_000
    for module in (consumer_filters, filter_data):
        monkeypatch.setattr(module, "now_ms", lambda: now)
    with Opened(tmp_path) as at:
        at.filters.subscribed("g", wanted("n > 3"))
        at.filters.subscribed("g", {})
        dead = save(at.filters)["filterDataByTopic"]["T"]["groupFilterData"]["g"]
        assert (dead["dead"], dead["deadTime"]) == (True, now)
        now += CONFIG.filter_data_clean_time_span - 1
        at.filters.look_again()
        assert save(at.filters)["filterDataByTopic"]
        put(at.store, 4)  # evaluated all the same: the group may come back
        at.filters.subscribed("g", wanted("n > 3"))
        assert found(at.store, at.filters, "g", "n > 3") == [4]
        at.filters.subscribed("g", {})
        now += CONFIG.filter_data_clean_time_span
        at.filters.look_again()
        assert save(at.filters)["filterDataByTopic"] == {}


def test_a_topic_that_comes_later(tmp_path: Path) -> None:
    with Opened(tmp_path) as at:
        at.filters.subscribed("g", wanted("n > 3", topic="Later"))
        put(at.store, 3, topic="Later")
        at.filters.look_again()
        born = save(at.filters)["filterDataByTopic"]["Later"]["groupFilterData"]["g"]
        assert born["bornOffset"] == at.store.stats()["maxPhyOffset"]


def test_limits(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Groups beyond the limit have no bits, and get what they want all the same."""
    with Opened(tmp_path) as at:
        for n in range(consumer_filters.MAX_EVALUATED + 2):
            at.filters.subscribed(f"g{n}", wanted(f"n > {n % 5}"))
        groups = save(at.filters)["filterDataByTopic"]["T"]["groupFilterData"]
        assert len(groups) == consumer_filters.MAX_EVALUATED
        assert caplog.text.count("have no bits") == 1
        put(at.store, *range(8))
        for n in range(consumer_filters.MAX_EVALUATED + 2):
            expected = [k for k in range(8) if k > n % 5]
            assert found(at.store, at.filters, f"g{n}", f"n > {n % 5}") == expected


def groups_of(filters: ConsumerFilters, topic: str = "T") -> set[str]:
    rows = filters.to_json()["filterDataByTopic"]
    return set(rows[topic]["groupFilterData"]) if topic in rows else set()


def test_the_dead_make_room(tmp_path: Path) -> None:
    """Those that nobody wants any more keep no place from those that somebody wants."""
    with Opened(tmp_path) as at:
        for n in range(consumer_filters.MAX_EVALUATED):
            at.filters.subscribed(f"g{n}", wanted("n > 3"))
        at.filters.subscribed("g7", {})
        at.filters.subscribed("new", wanted("n > 4"))
        assert len(groups_of(at.filters)) == consumer_filters.MAX_EVALUATED
        assert "new" in groups_of(at.filters)
        assert "g7" not in groups_of(at.filters)
        put(at.store, *range(8))
        assert found(at.store, at.filters, "new", "n > 4") == [5, 6, 7]
        assert found(at.store, at.filters, "g7", "n > 3") == [4, 5, 6, 7]


def test_long_expressions_have_a_limit_in_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_filters, "MAX_TEXT", 20)
    with Opened(tmp_path) as at:
        at.filters.subscribed("a", wanted("n > 3 OR n > 3"))
        at.filters.subscribed("b", wanted("n > 3 OR n > 4"))
        assert groups_of(at.filters) == {"a"}
        at.filters.subscribed("a", {})
        at.filters.subscribed("b", wanted("n > 3 OR n > 4", 2))
        assert groups_of(at.filters) == {"b"}
        at.filters.subscribed("b", wanted("n > 3 OR n > 5", 3))
        put(at.store, 3, 5)
        assert groups_of(at.filters) == {"b"}
        assert found(at.store, at.filters, "b", "n > 3 OR n > 5") == [5]


def test_what_there_is_no_time_for_comes_later(tmp_path: Path) -> None:
    """Heartbeats have so much of the loop's time; the last word of a group counts."""
    with Opened(tmp_path) as at:
        enough, at.filters._time = at.filters._time, LoopTime(0, 1)
        at.filters.subscribed("g", wanted("n > 3"))
        at.filters.subscribed("h", wanted("n > 3"))
        at.filters.subscribed("h", {})
        at.filters.look_again()
        assert groups_of(at.filters) == set()
        put(at.store, 4)
        at.filters._time = enough
        at.filters.look_again()
        assert groups_of(at.filters) == {"g"}
        put(at.store, 3, 5)
        assert found(at.store, at.filters, "g", "n > 3") == [4, 5]


def test_a_pull_that_was_checked_before_a_change(tmp_path: Path) -> None:
    """It reads in a thread, which may be late; what came since is not told by its bits."""
    with Opened(tmp_path) as at:
        at.filters.subscribed("g", wanted("n > 3"))
        late = at.filters.of("g", "T", "n > 3")
        at.filters.subscribed("g", wanted("n < 3", 2))
        time.sleep(0.005)  # bits count from the next millisecond on
        put(at.store, 4)
        at.filters.subscribed("g", wanted("n > 3", 3))
        assert at.store.get("T", 0, 0, sql=late).count == 1


def test_names_that_no_topic_has(tmp_path: Path) -> None:
    """A heartbeat may state any text as a topic."""
    with Opened(tmp_path) as at:
        for topic in ("\ud800", "x" * 1000, "a/b", ""):
            at.filters.subscribed("g", wanted("n > 3", topic=topic))
        at.filters.subscribed("\ud800", wanted("n > 3"))
        assert at.filters.to_json()["filterDataByTopic"] == {}


def test_a_topic_that_does_not_come_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is not written again and again for it."""
    with Opened(tmp_path) as at:
        at.filters.subscribed("g", wanted("n > 3", topic="Never"))
        save(at.filters)
        changes: list[None] = []
        monkeypatch.setattr(at.filters, "changed", lambda: changes.append(None))
        at.filters.look_again()
        assert not changes


def test_all_groups_of_a_topic_that_comes_later(tmp_path: Path) -> None:
    """Also those that were told before the one whose heartbeat finds it there."""
    with Opened(tmp_path) as at:
        at.filters.subscribed("g", wanted("n > 3", topic="Later"))
        put(at.store, 3, topic="Later")
        at.filters.subscribed("h", wanted("n > 4", topic="Later"))
        rows = at.filters.to_json()["filterDataByTopic"]["Later"]["groupFilterData"]
        assert rows["g"]["bornOffset"] == rows["h"]["bornOffset"] > 0


EXPRESSIONS = {
    "n > 3": lambda n: n > 3,
    "n < 3": lambda n: n < 3,
    "n = 2 OR n = 7": lambda n: n in (2, 7),
    "n IS NOT NULL": lambda n: True,
}


class FiltersMachine(RuleBasedStateMachine):
    """Groups come, change what they want and go; the broker stops, or is killed, with its file as
    it was written last. Whatever happens, a pull finds all that its expression is true of."""

    @initialize()
    def open(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="filters-model-", dir=scratch.place()))
        self.generation = 0
        self.numbers = [0]
        self.version = 0
        self.at = Opened(self.root)

    @property
    def root(self) -> Path:
        return self.folder / str(self.generation)

    @rule(numbers=st.lists(st.integers(0, 9), min_size=1, max_size=5))
    def put(self, numbers: list[int]) -> None:
        put(self.at.store, *numbers)
        self.numbers += numbers

    @rule(group=st.sampled_from("ab"), expression=st.sampled_from(sorted(EXPRESSIONS)))
    def subscribe(self, group: str, expression: str) -> None:
        self.version += 1
        self.at.filters.subscribed(group, wanted(expression, self.version))
        time.sleep(0.002)  # bits count from the next millisecond on

    @rule(group=st.sampled_from("ab"))
    def leave(self, group: str) -> None:
        self.at.filters.subscribed(group, {})

    @rule(group=st.sampled_from("ab"), expression=st.sampled_from(sorted(EXPRESSIONS)))
    def pull(self, group: str, expression: str) -> None:
        expected = [n for n in self.numbers if EXPRESSIONS[expression](n)]
        assert found(self.at.store, self.at.filters, group, expression) == expected

    @rule()
    def save(self) -> None:
        trio.run(self.at.filters.save_if_changed)

    @rule(saved=st.booleans())
    def stop(self, saved: bool) -> None:
        if saved:
            save(self.at.filters, stopped=True)
        self.at.store.close()
        self.reopen()

    @rule()
    def kill(self) -> None:
        copy = image(self.root, self.folder / str(self.generation + 1))
        self.at.store.close()
        self.generation += 1
        assert copy == self.root
        self.reopen()

    def reopen(self) -> None:
        self.at = Opened(self.root)
        self.numbers.append(0)

    def teardown(self) -> None:
        if hasattr(self, "at"):
            self.at.store.close()
            shutil.rmtree(self.folder)


TestFilters = FiltersMachine.TestCase
TestFilters.settings = settings(
    max_examples=examples(5), stateful_step_count=20, suppress_health_check=[HealthCheck.too_slow]
)
