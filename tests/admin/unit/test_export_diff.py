"""Two exports compared."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrmq.admin.export_diff import Change, Export, compare, parse, same
from pyrmq.errors import ClientError


def export(name: str = "f", **members: Any) -> Export:
    return parse(name, json.dumps(members).encode())


def test_topics_and_groups() -> None:
    topic = {"topicName": "T", "perm": 6, "attributes": {"+message.type": "FIFO"}}
    old = export(
        topicConfigTable={"T": topic, "Gone": {"perm": 2}, "Same": topic},
        subscriptionGroupTable={"G": {"retryMaxTimes": 16, "consumeEnable": True}},
        exportTime=1,
    )
    new = export(
        topicConfigTable={
            "T": topic | {"perm": 4, "attributes": {"+message.type": "DELAY", "x": "y"}},
            "New": {"perm": 6},
            "Same": dict(reversed(topic.items())),
        },
        subscriptionGroupTable={"G": {"retryMaxTimes": 16.0, "consumeEnable": 1}},
        exportTime=2,
    )
    found = compare(old, new)
    assert found.changes == [
        Change("topic", "Gone", "removed", "", {"perm": 2}, None),
        Change("topic", "New", "added", "", None, {"perm": 6}),
        Change("topic", "T", "changed", "attributes.+message.type", "FIFO", "DELAY"),
        Change("topic", "T", "added", "attributes.x", None, "y"),
        Change("topic", "T", "changed", "perm", 6, 4),
        Change("group", "G", "changed", "consumeEnable", True, 1),
    ]
    assert (found.compared, found.equal) == (["topic", "group"], False)
    assert compare(new, new).equal


def test_configs_metrics_and_what_only_one_has() -> None:
    old = export(
        brokerConfigs={"a": {"brokerRole": "ASYNC_MASTER"}}, clusterScale={"namesrvSize": 1}
    )
    new = export(brokerConfigs={"a": {}}, clusterScale={"namesrvSize": 2})
    assert [(c.kind, c.name, c.change, c.field) for c in compare(old, new).changes] == [
        ("broker config", "a", "removed", "brokerRole"),
        ("cluster scale", "", "changed", "namesrvSize"),
    ]
    report = {"a": {"runtimeVersion": {"clientInfo": ["JAVA%V5_3_3", "GO%V5_1_0"]}}}
    turned = {"a": {"runtimeVersion": {"clientInfo": ["GO%V5_1_0", "JAVA%V5_3_3"]}}}
    found = compare(export(evaluateReport=report), export(evaluateReport=turned, totalData={}))
    assert found.equal
    assert (found.only_old, found.only_new) == ([], ["total metrics"])


def test_files_of_two_kinds_cannot_be_compared() -> None:
    with pytest.raises(ClientError, match="old is of exportConfigs and new of exportMetadata"):
        compare(export("old", clusterScale={}), export("new", topicConfigTable={}))


def test_fastjsons_dialect_is_read() -> None:
    found = parse("f", b'{\n\t"topicConfigTable":{\n\t\t"T":{"x":{0:"a"}}}}')
    assert compare(found, found).equal


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "f is no export: it is no JSON"),
        (b"{", "f is no export: it is no JSON"),
        (b"[1]", "f is no export: it is no JSON object"),
        (b"[" * 100_000, "f is no export"),
        (b'{"a":' * 100_000, "f is no export"),
        (b"{}", "it has none of brokerConfigs, topicConfigTable"),
        (b'{"topicConfigTable":3}', r"topicConfigTable \(topic\) is no object"),
        (b'{"topicConfigTable":{"T":3}}', r"T in topicConfigTable \(topic\) is no object"),
        (b'{"totalData":[]}', "is no object"),
    ],
    ids=range(9),
)
def test_what_is_no_export(raw: bytes, said: str) -> None:
    with pytest.raises(ClientError, match=said):
        parse("f", raw)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner, max_size=3),
    max_leaves=8,
)
tables = st.dictionaries(
    st.text("ST", max_size=2), st.dictionaries(st.text("ab", max_size=2), json_values, max_size=3)
)


@given(tables, tables)
def test_the_other_way_round_is_the_opposite(one: Any, other: Any) -> None:
    a, b = export(topicConfigTable=one), export(topicConfigTable=other)
    opposite = {"added": "removed", "removed": "added", "changed": "changed"}
    there, back = compare(a, b), compare(b, a)
    assert [(c.name, c.change, c.field) for c in there.changes] == [
        (c.name, opposite[c.change], c.field) for c in back.changes
    ]
    assert compare(a, a).equal
    assert same(one, one)
