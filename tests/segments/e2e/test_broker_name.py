"""A store says its broker's name by itself: brokerName.json of ours, topics.json of RocketMQ's."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

import pyrmq
import pyrmq.sync
import pyrmq.testing
from pyrmq.broker import identity
from pyrmq.broker.config.broker_config import BrokerConfig
from pyrmq.broker.tables.topics import system_topics
from pyrmq.errors import CheckpointError, SegmentOptionError
from pyrmq.model.broker_name import told
from pyrmq.model.topic import TopicConfig
from pyrmq.segments.read_options import ReadOptions
from pyrmq.segments.selection import Selection
from pyrmq.segments.store import open_stores
from pyrmq.segments.stream import StreamPlanner
from tests.segments.making import Made
from tests.store.tools import image

HOW = ReadOptions(columns=("brokerName", "queueOffset"))


def table(*names: str, **others: dict[str, Any]) -> dict[str, Any]:
    """What a broker has in topics.json that had these names one after the other."""
    topics = {
        topic.topic_name: topic.to_json()
        for name in names
        for topic in system_topics(BrokerConfig(broker_name=name))
    }
    return {**topics, **others}


def of_4(*names: str) -> dict[str, Any]:
    """The same of a 4.x broker, which registers no topic for the members of its group."""
    return {name: row for name, row in table(*names).items() if "MEMBER" not in name}


def configure(root: Path, file: str, value: Any) -> Path:
    (root / "config").mkdir(exist_ok=True)
    text = value if isinstance(value, str) else json.dumps(value)
    (root / "config" / file).write_text(text)
    return root


def topics(root: Path, rows: dict[str, Any]) -> Path:
    return configure(root, "topics.json", {"dataVersion": {}, "topicConfigTable": rows})


def names(*roots: Path | str) -> list[str]:
    return [store.name for store in open_stores([str(root) for root in roots])]


@pytest.mark.parametrize(
    ("own", "rows", "expected"),
    [
        (None, table("a"), {"a"}),
        (None, of_4("a"), {"a"}),
        (None, {"a.example": TopicConfig("a.example", 1, 1, 7).to_json()}, {"a.example"}),
        (None, of_4("DefaultCluster"), {"DefaultCluster"}),
        (None, table("a", mine=TopicConfig("mine", 1, 1, 7).to_json()), {"a"}),
        # renamed, or a topic that an operator made so
        (None, table("a", "b"), {"a", "b"}),
        (None, of_4("a") | {"mine": TopicConfig("mine", 1, 1, 7).to_json()}, {"a", "mine"}),
        # an operator's topic, TBW102 with one queue
        (None, {"T": TopicConfig("T", 4, 4, 6).to_json()}, set()),
        (None, {"TBW102": TopicConfig("TBW102", 1, 1, 7).to_json()}, set()),
        ({"brokerName": "b", "others": []}, None, {"b"}),
        ({"brokerName": "b", "others": ["a"]}, table("a", "b"), {"b"}),
        # opened by RocketMQ's broker under another name since
        ({"brokerName": "a", "others": []}, table("a", "c"), {"c"}),
        ({"brokerName": "a", "others": []}, table("a", "c", "d"), {"c", "d"}),
        # what nobody wrote
        ({"brokerName": "x\n"}, table("a"), {"a"}),
        ({"brokerName": "x" * 300}, None, set()),
        ({"brokerName": 3, "others": 3}, {"T": 3, "U": {"perm": "7"}}, set()),
        ({"brokerName": "a", "others": [3, {}]}, [], {"a"}),
        (None, {"T": {"perm": 7, "readQueueNums": True, "writeQueueNums": True}}, set()),
        ([], {"rmq_sys_SYNC_BROKER_MEMBER_": {}, "rmq_sys_SYNC_BROKER_MEMBER_a/b": {}}, set()),
    ],
)  # fmt: skip
def test_what_the_files_tell(own: Any, rows: Any, expected: set[str]) -> None:
    assert told(own, rows) == expected


def test_our_broker_writes_it_down(tmp_path: Path) -> None:
    config = tmp_path / "config"
    identity.write_name(config, "new", system_topics(BrokerConfig(broker_name="new")))
    written = json.loads((config / "brokerName.json").read_text())
    assert written == {"brokerName": "new", "others": []}
    again = (config / "brokerName.json").stat().st_mtime_ns
    identity.write_name(config, "new", system_topics(BrokerConfig(broker_name="new")))
    assert (config / "brokerName.json").stat().st_mtime_ns == again
    rows = [t for name in ("new", "next") for t in system_topics(BrokerConfig(broker_name=name))]
    (config / "brokerName.json").write_text("{")
    identity.write_name(config, "next", rows)
    written = json.loads((config / "brokerName.json").read_text())
    assert written == {"brokerName": "next", "others": ["new"]}


def test_a_store_says_its_name(made: Made, tmp_path: Path) -> None:
    root = image(made.root, tmp_path / "store")
    assert names(root) == ["store"]
    configure(root, "brokerName.json", {"brokerName": "ours", "others": []})
    first = min((root / "commitlog").iterdir())
    assert names(root) == names(root / "commitlog") == names(first) == ["ours"]
    assert names(f"file://{root}") == ["ours"]
    assert [s.name for s in open_stores([str(root)], ["x"])] == ["x"]
    chosen = pyrmq.scan(root, assign={"A": {"ours": [1]}}, columns=["brokerName", "queueId"])
    assert set(chosen.to_arrow().to_pylist()[0].values()) == {"ours", 1}
    hint = r"no broker 'store' \(the stores are of ours \(store is only the folder's name"
    with pytest.raises(SegmentOptionError, match=hint):
        pyrmq.scan(root, assign={"A": {"store": [1]}})
    # While a broker replaces the file it has its other name.
    (root / "config" / "brokerName.json").rename(root / "config" / "brokerName.json.bak")
    assert names(root) == ["ours"]


def test_a_remote_store_says_its_name(made: Made, tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    root = image(made.root, tmp_path / "shipped")
    configure(root, "brokerName.json", {"brokerName": "ours", "others": []})
    for path in (*(root / "commitlog").iterdir(), root / "config" / "brokerName.json"):
        memory.pipe_file(f"/named/{path.relative_to(root)}", path.read_bytes())
    try:
        assert names("memory:///named") == names("memory:///named/commitlog") == ["ours"]
    finally:
        memory.rm("/named", recursive=True)


def test_a_name_that_cannot_be_told(
    made: Made, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = topics(image(made.root, tmp_path / "store"), table("a", "b"))
    with caplog.at_level(logging.WARNING):
        assert names(root) == ["store"]
    assert "names several brokers, a, b: its folder names the broker" in caplog.text
    for broken in ("{", "[" * 100_000, "\xff", "3"):
        configure(root, "topics.json", broken)
        configure(root, "brokerName.json", broken)
        caplog.clear()
        assert names(root) == ["store"]
        assert ("brokerName.json cannot be read" in caplog.text) == (broken != "3")


def test_two_stores_of_one_name(made: Made, tmp_path: Path) -> None:
    roots = [image(made.root, tmp_path / name) for name in ("a", "b")]
    for root in roots:
        topics(root, table("host"))
    with pytest.raises(SegmentOptionError, match=r"both be broker 'host'.*give broker_names"):
        names(*roots)


def stream(*roots: Path, **options: Any) -> StreamPlanner:
    return StreamPlanner([str(root) for root in roots], Selection(), HOW, **options)


def test_a_checkpoint_with_the_names_of_folders(made: Made, tmp_path: Path) -> None:
    root = image(made.root, tmp_path / "store")
    before = stream(root).end()
    topics(root, table("ours"))
    with pytest.raises(CheckpointError, match=r"broker_names='store' continues with those"):
        stream(root).latest(before)
    assert stream(root, broker_names=["store"]).latest(before) == before
    moved = tmp_path / "elsewhere"
    after = stream(root).end()
    shutil.move(root, moved)
    assert stream(moved).latest(after) == after


def test_folders_named_as_each_others_brokers(made: Made, tmp_path: Path) -> None:
    roots = [image(made.root, tmp_path / name) for name in ("a", "b")]
    for root, name in zip(roots, ("b", "a"), strict=True):
        topics(root, table(name))
    assert names(*roots) == ["b", "a"]
    with pytest.raises(
        SegmentOptionError, match=r"checkpoint could mean either.*give broker_names"
    ):
        stream(*roots)
    assert set(stream(*roots, broker_names=["b", "a"]).end()["log"]) == {"a", "b"}


def test_what_a_broker_leaves_names_its_messages(tmp_path: Path) -> None:
    """The name that clients know, in rows that are read from the files."""
    with pyrmq.testing.broker(store=tmp_path / "kept", broker_name="shop-1") as server:
        with pyrmq.sync.Producer("p", namesrv=server.namesrv) as producer:
            sent = producer.send(pyrmq.Message("T", b"x"))
        rows = pyrmq.scan(tmp_path / "kept", topic="T", columns=["brokerName"]).to_arrow()
    assert (
        rows.to_pylist() == [{"brokerName": sent.queue.broker_name}] == [{"brokerName": "shop-1"}]
    )


def test_the_real_store_says_its_name(golden: tuple[Path, Any]) -> None:
    """RocketMQ 5.3.3 wrote it."""
    assert names(golden[0]) == ["broker-a"]
