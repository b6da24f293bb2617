"""Files of what a cluster should be: what is read, what is refused, what has to change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrmq.admin import cluster_plan, desired, plain_yaml
from pyrmq.admin.cluster_plan import BrokerState, described, steps_of, topic_members
from pyrmq.admin.desired import parse
from pyrmq.errors import ConfigError

HEAD = "format: pyrmq-cluster/1\ncluster: C\n"


def of(text: str) -> desired.Desired:
    return parse((HEAD + text).encode())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 1", {"a": 1}),
        ("a: 007", {"a": "007"}),
        ("a: '1'", {"a": "1"}),
        ("a: true\nb: yes\nc: on", {"a": True, "b": "yes", "c": "on"}),
        ("a: ~\nb: null\nc:", {"a": None, "b": None, "c": None}),
        ("a: [1, x]", {"a": [1, "x"]}),
        ("a: 2026-01-31", {"a": "2026-01-31"}),
        ("a: 1.5", {"a": 1.5}),
        ('{\n\t"a": {"b": true}\n}', {"a": {"b": True}}),
        ("1: x\ntrue: y", {"1": "x", "true": "y"}),
        ("", None),
    ],
)
def test_plain_yaml(text: str, value: Any) -> None:
    assert plain_yaml.read(text.encode()) == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"a: &x 1\nb: *x", "line 1: anchors"),
        (b"a: *x", "anchors"),
        (b"a: !!python/object:os.system x", "tags"),
        (b"&x a: 1", "anchors and tags"),
        (b"a: 1\na: 2", "line 2: 'a' stands there twice"),
        (b"a: 1\n---\nb: 2", "second document"),
        (b"a: [", "no YAML"),
        (b"a: \x01", "no YAML"),
        (b"\xff", "not UTF-8"),
        (b"{not json", "no JSON"),
        (b"? [a]\n: 1", "a key is a name"),
        (b"a: " + b"[" * 20 + b"]" * 20, "deeper than 12 levels"),
        (b'{"a": ' * 5000, "no JSON"),
    ],
)
def test_what_is_no_plain_yaml(text: bytes, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        plain_yaml.read(text)


def test_yaml_with_too_many_values() -> None:
    with pytest.raises(ConfigError, match="more than 10 values"):
        plain_yaml.read(b"a: [" + b"1," * 50 + b"]", most=10)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(10**17), 10**17) | st.text(max_size=20),
        lambda inner: (
            st.dictionaries(st.text(min_size=1, max_size=8), inner, max_size=4)
            | st.lists(inner, max_size=4)
        ),
        max_leaves=12,
    ).filter(lambda v: isinstance(v, dict))
)
def test_what_is_written_is_read_again(value: Any) -> None:
    assert plain_yaml.read(plain_yaml.write({"x": value}).encode()) == {"x": value}


def test_a_whole_file() -> None:
    found = of(
        """
brokers: [broker-a, broker-b]
config: {fileReservedTime: 48, slaveReadEnable: true}
brokerConfig:
  broker-b: {fileReservedTime: "72"}
topics:
  orders: {readQueueNums: 4, attributes: {message.type: FIFO}}
  local:
    perm: 4
    brokers:
      broker-a: {perm: 6}
groups:
  billing: {retryMaxTimes: 3}
  plain:
"""
    )
    assert found.config_of("broker-a") == {"fileReservedTime": "48", "slaveReadEnable": "true"}
    assert found.config_of("broker-b")["fileReservedTime"] == "72"
    assert found.topics is not None
    assert found.groups is not None
    assert found.topics["local"].at("broker-a") == {"perm": 6}
    assert found.topics["local"].at("broker-b") is None
    assert found.groups["plain"].at("any") == {}
    assert parse(found.to_text().encode()) == found


def test_a_json_file() -> None:
    text = json.dumps({"format": desired.FORMAT, "cluster": "C", "topics": {"t": {"perm": 6}}})
    found = parse(text.encode())
    assert found.topics is not None
    assert found.topics["t"].members == {"perm": 6}
    assert found.groups is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("topic: {}", "unknown key 'topic': did you mean topics"),
        ("topics: {t: {readQueueNum: 4}}", "'readQueueNum' is no member of a topic"),
        ("topics: {t: {perm: 8}}", "perm is a number from 0 to 7"),
        ("topics: {t: {readQueueNums: many}}", "readQueueNums is a number"),
        ("topics: {t: {readQueueNums: -1}}", "readQueueNums is a number"),
        ("topics: {t: {topicName: u}}", "its name is the key"),
        ("topics: {t: {perm: }}", "a member without a value"),
        ("topics: {t: 5}", "topic t is a mapping"),
        ("topics: [t]", "topics is a mapping"),
        ("topics: {'../../etc': {}}", "is illegal"),
        ("topics: {'a\\x1b[31m': {}}", "is illegal"),
        ("topics: {SCHEDULE_TOPIC_XXXX: {}}", "belongs to the broker"),
        ("topics: {'%RETRY%g': {}}", "belongs to the broker"),
        ("topics: {t: {attributes: {+a: b}}}", "without signs|no signs"),
        ("topics: {t: {attributes: {a: 1}}}", "object of texts"),
        ("topics: {t: {brokers: [a]}}", "brokers is a mapping"),
        ("topics: {t: {brokers: {a: {perm: 9}}}}", "perm is a number"),
        ("topics: {t: {brokers: {'a b': {}}}}", "is no name of a broker"),
        ("groups: {g: {retryMaxTime: 3}}", "unknown key 'retryMaxTime': did you mean retryMax"),
        ("groups: {g: {retryMaxTimes: true}}", "of another type"),
        ("groups: {g: {groupName: h}}", "unknown key 'groupName'"),
        ("groups: {CID_RMQ_SYS_x: {}}", "belongs to the broker"),
        ("groups: {'a b': {}}", "is illegal"),
        ("groups: {g: {attributes: {-a: b}}}", "without signs"),
        ("config: {'a b': 1}", "is no configuration key"),
        ("config: {a: [1]}", "is a text, a number"),
        ('config: {a: "1\\n2"}', "one line"),
        ("config: {initAuthenticationUser: x}", "is a secret"),
        ("brokers: broker-a", "is a list"),
        ("brokers: [1]", "is no name of a broker"),
        ("brokerConfig: {'a/b': {}}", "is no name of a broker"),
    ],
)
def test_a_file_that_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        of(text)


@pytest.mark.parametrize(
    "raw",
    [b"", b"topics: {}", b"format: pyrmq-cluster/2", b'{"topicConfigTable": {}}', b"- a", b"5"],
)
def test_what_is_no_such_file(raw: bytes) -> None:
    with pytest.raises(ConfigError, match="format: pyrmq-cluster/1"):
        parse(raw)


@pytest.mark.parametrize("text", ["", "cluster:", "cluster: 5", "cluster: 'a b'"])
def test_a_file_without_a_cluster(text: str) -> None:
    with pytest.raises(ConfigError, match="name of the cluster"):
        parse(f"format: pyrmq-cluster/1\n{text}".encode())


async def test_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        await desired.read(tmp_path / "none")
    with pytest.raises(ConfigError, match="cannot be read"):
        await desired.read(tmp_path)
    monkeypatch.setattr(desired, "MAX_BYTES", 10)
    (tmp_path / "long").write_text(HEAD)
    with pytest.raises(ConfigError, match="more than"):
        await desired.read(tmp_path / "long")


def state(name: str = "broker-a", **parts: Any) -> BrokerState:
    topics = {k: topic_members(v) for k, v in parts.get("topics", {}).items()}
    groups = {k: cluster_plan.group_members(k, v) for k, v in parts.get("groups", {}).items()}
    return BrokerState(name, f"{name}:1", topics, groups, parts.get("config", {}))


def steps(text: str, have: BrokerState, *, prune: bool = False) -> list[tuple[Any, ...]]:
    return [
        (s.kind, s.name, s.change, {f.field: (f.old, f.new) for f in s.fields})
        for s in steps_of(of(text), have, prune=prune)
    ]


def test_what_is_left_out_is_not_compared() -> None:
    have = state(
        topics={"t": {"readQueueNums": 3, "perm": 4, "attributes": {"a": "1"}}},
        groups={"g": {"retryMaxTimes": 7}},
        config={"fileReservedTime": "1"},
    )
    assert steps("", have) == []
    assert steps("topics: {t: }\ngroups: {g: }", have) == []
    assert steps("topics: {t: {perm: 4}}", have) == []
    assert steps("topics: {}", have) == [("topic", "t", "keep", {})]
    assert steps("groups: {}", have, prune=True) == [("group", "g", "delete", {})]


def test_what_has_to_change() -> None:
    have = state(
        topics={"t": {"readQueueNums": 8, "attributes": {"a": "1", "b": "2"}}},
        groups={"g": {"retryMaxTimes": 16, "attributes": {"x": "1"}}},
        config={"fileReservedTime": "72"},
    )
    text = """
config: {fileReservedTime: 48, deleteWhen: "04"}
topics: {t: {readQueueNums: 9, attributes: {a: "1", c: "3"}}, u: {perm: 4}}
groups: {g: {retryMaxTimes: 3, attributes: {}}, h: {}}
"""
    assert steps(text, have) == [
        ("config", "deleteWhen", "change", {"": (None, "04")}),
        ("config", "fileReservedTime", "change", {"": ("72", "48")}),
        (
            "topic", "t", "change",
            {"attributes.b": ("2", None), "attributes.c": (None, "3"), "readQueueNums": (8, 9)},
        ),
        ("topic", "u", "create", {"perm": (None, 4)}),
        ("group", "g", "change", {"attributes.x": ("1", None), "retryMaxTimes": (16, 3)}),
        ("group", "h", "create", {}),
    ]  # fmt: skip
    found = {s.name: s for s in steps_of(of(text), have, prune=False)}
    assert cluster_plan.changed_attributes(found["t"]) == {"-b": "", "+c": "3"}
    topic = cluster_plan.topic_of(found["u"])
    assert (topic.perm, topic.read_queue_nums, topic.write_queue_nums) == (4, 8, 8)
    group = cluster_plan.group_of(found["g"])
    assert (group.retry_max_times, group.attributes) == (3, {"-x": ""})


def test_a_topic_of_some_brokers() -> None:
    text = "topics: {t: {perm: 6, brokers: {broker-a: {perm: 4}}}}"
    assert steps(text, state()) == [("topic", "t", "create", {"perm": (None, 4)})]
    assert steps(text, state("broker-b")) == []
    there = state("broker-b", topics={"t": {}})
    assert steps(text, there) == [("topic", "t", "keep", {})]


def test_a_cluster_is_described_as_it_is() -> None:
    common = {"slaveReadEnable": "true", "brokerIP1": "10.0.0.1", "brokerDrain": "ALL"}
    a = state(
        "broker-a",
        topics={"t": {}, "only-a": {"perm": 4}, "other": {"readQueueNums": 4}},
        groups={"g": {}},
        config={**common, "fileReservedTime": "72", "maxAutoCreatedTopics": "5"},
    )
    b = state(
        "broker-b",
        topics={"t": {}, "other": {"readQueueNums": 8}},
        groups={"g": {}},
        config={**common, "maxAutoCreatedTopics": "6"},
    )
    found = described("C", [a, b])
    assert found.config == {"slaveReadEnable": "true"}
    assert found.broker_config == {
        "broker-a": {"fileReservedTime": "72", "maxAutoCreatedTopics": "5"},
        "broker-b": {"maxAutoCreatedTopics": "6"},
    }  # fmt: skip
    assert found.topics is not None
    assert found.topics["t"].on is None
    assert found.topics["only-a"].on == {"broker-a": {}}
    assert found.topics["other"].on == {
        "broker-a": {"readQueueNums": 4}, "broker-b": {"readQueueNums": 8},
    }  # fmt: skip
    again = parse(found.to_text().encode())
    assert again == found
    for one in (a, b):
        assert list(steps_of(again, one, prune=True)) == []


def test_ten_thousand_topics_are_read_and_compared() -> None:
    have = state(topics={f"t{n}": {} for n in range(10_000)})
    again = parse(described("C", [have]).to_text().encode())
    assert again.topics is not None
    assert len(again.topics) == 10_000
    assert list(steps_of(again, have, prune=False)) == []


def test_steps_that_go_together() -> None:
    have = state(topics={"old": {}}, groups={})
    names = ", ".join(f"t{n:03}: {{}}" for n in range(150))
    text = f"config: {{a: 1, b: 2}}\ntopics: {{{names}}}\ngroups: {{g: , h: }}"
    found = list(cluster_plan.batches(list(steps_of(of(text), have, prune=True))))
    assert [(b[0].kind, b[0].change, len(b)) for b in found] == [
        ("config", "change", 1), ("config", "change", 1),
        ("topic", "delete", 1), ("topic", "create", 100), ("topic", "create", 50),
        ("group", "create", 2),
    ]  # fmt: skip
    assert list(cluster_plan.batches([])) == []
