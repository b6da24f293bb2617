"""The table of options: what is accepted, what errors say about the rest. No Spark session."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from pyrmq.errors import ConfigError, PyrmqError
from spark_ext.jobs.errors import JobError
from spark_ext.jobs.source import Source
from spark_ext.option import Query
from spark_ext.option_table import OPTIONS, TABLE
from spark_ext.options import Options


def batch(**given: str) -> Options:
    return Options({"path": "/store", **given}, Query.BATCH)


def stream(**given: str) -> Options:
    return Options({"path": "/store", **given}, Query.STREAM)


def test_defaults_are_those_of_the_specification() -> None:
    given = batch()
    assert given["startingOffsets"] == "earliest"
    assert given["endingOffsets"] == "latest"
    assert given["subExpression"] is None
    assert given["includeSystemTopics"] is False
    assert given["splitBytes"] == 256 << 20
    assert given["minPartitions"] is None
    assert given["plan"] == "auto"
    assert (given["batchRows"], given["batchBytes"]) == (10_000, 1 << 20)
    assert given["properties"] == "none"
    assert given["decompress"] is True
    assert given["verifyCrc"] == "tail"
    assert given["failOnDataLoss"] is True
    assert given["onCorruption"] == "fail"
    assert stream()["startingOffsets"] == "latest"
    assert stream()["maxBytesPerTrigger"] == 1 << 30
    assert stream()["maxOffsetsPerTrigger"] is None


def test_names_are_looked_at_without_case() -> None:
    given = batch(SPLITBYTES="64m", failondataloss="False")
    assert given["splitBytes"] == 64 << 20
    assert given["failOnDataLoss"] is False
    assert given.is_set("splitBytes")


def test_an_option_twice_in_different_case() -> None:
    assert batch(splitBytes="64m", SPLITBYTES="64m")["splitBytes"] == 64 << 20
    with pytest.raises(ConfigError, match="splitBytes is given twice, once as SPLITBYTES"):
        batch(splitBytes="64m", SPLITBYTES="65m")
    with pytest.raises(JobError, match="splitBytes is given twice"):
        Source(("a",), options={"splitBytes": "1m", "splitbytes": "2m"})


def test_an_option_that_is_not_set() -> None:
    given = batch(splitBytes="64m")
    assert not given.is_set("batchBytes")


@pytest.mark.parametrize(
    ("key", "value", "means"),
    [
        ("paths", '["/a","/b"]', ("/a", "/b")),
        ("brokerName", "a, b", ("a", "b")),
        ("subscribe", "one,two", ("one", "two")),
        ("subExpression", "A || B", ("A", "B")),
        ("assign", '{"t":{"b":[1,0]}}', {"t": {"b": (0, 1)}}),
        ("startingOffsets", '{"t":{"b":{"0":-2,"7":5}}}', {"t": {"b": {0: -2, 7: 5}}}),
        ("startingOffsets", "EARLIEST", "earliest"),
        ("endingOffsets", '{"t":{"b":{"0":-1}}}', {"t": {"b": {0: -1}}}),
        ("splitBytes", "1G", 1 << 30),
        ("splitBytes", "512kb", 512 << 10),
        ("batchBytes", "2097152", 2 << 20),
        ("columns", "body,topic", ("body", "topic")),
        ("storageOptions", '{"key": "v"}', {"key": "v"}),
        ("minPartitions", "12", 12),
    ],
)
def test_values(key: str, value: str, means: Any) -> None:
    options = {"path": "/store", key: value}
    if key == "paths":
        del options["path"]
    assert Options(options, Query.BATCH)[key] == means


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"subcribe": "t"}, "did you mean subscribe?"),
        ({"starting_offsets": "earliest"}, "did you mean startingOffsets?"),
        ({"maxOffsetPerTrigger": "5"}, "maxOffsetsPerTrigger"),
        ({"kafka.bootstrap.servers": "h:9092"}, "nameServer .*not brokers"),
        ({"kafka.security.protocol": "SSL"}, "options of Kafka's client are not known"),
        ({"startingOffset": "earliest"}, "did you mean startingOffsets?"),
        ({"startingOffsetByTimestamp": "{}"}, "did you mean startingOffsetsByTimestamp?"),
        ({"namesrvAddr": "h:9876"}, "did you mean nameServer "),
        ({"rocketmq.namesrv.addr": "h:9876"}, "did you mean nameServer "),
        ({"kafka.group.id": "g"}, "reads have no group"),
        ({"consumerGroup": "g"}, "reads have no group"),
        ({"consumeFromWhere": "x"}, "did you mean startingOffsets"),
        ({"tags": "A"}, "did you mean subExpression?"),
        ({"checkpointLocation": "/c"}, "belongs to writeStream"),
        ({"splitBytes": "1g", "SPLITBYTES": "2g"}, "splitBytes is given twice"),
        ({"startingTimestamp": "1795300000"}, "give 1795300000000"),
        ({"endingOffsetsByTimestamp": '{"t": 1795300000}'}, "for 't' must be"),
        ({"location": "/b"}, "path is given twice"),
        ({"zzzzzzz": "5"}, "options of a batch read of segments: .*subscribe"),
        ({"maxOffsetsPerTrigger": "5"}, "does not belong to a batch read of segments; it is for"),
        ({"failOnDataLoss": "yes"}, "option failOnDataLoss must be true or false, not 'yes'"),
        ({"splitBytes": "64x"}, "option splitBytes must be a size such as"),
        ({"splitBytes": "1"}, "option splitBytes must be 65536 to"),
        ({"minPartitions": "0"}, "option minPartitions must be 1"),
        ({"minPartitions": "many"}, "must be a whole number"),
        ({"plan": "fast"}, "must be auto, scan, index or file, not 'fast'"),
        ({"subscribe": "a,,b"}, "names with commas"),
        ({"subscribe": "a,a"}, "a twice"),
        ({"subscribe": "a", "topic": "b"}, "subscribe and topic exclude each other"),
        ({"subscribePattern": "("}, "not a regular expression"),
        ({"properties": "json", "includeHeaders": "true"}, "exclude each other"),
        ({"paths": '["/b"]'}, "path and paths exclude each other"),
        ({"startingOffsets": "latest"}, "cannot be latest"),
        ({"startingOffsets": '{"t":{"b":{"0":-1}}}'}, "cannot be latest"),
        ({"startingOffsets": "newest"}, "startingOffsets: 'newest' .*earliest, latest, or JSON"),
        ({"startingOffsets": '{"t":'}, "startingOffsets: .*does not parse"),
        ({"startingOffsets": '{"t":[]}'}, "startingOffsets: 't' has "),
        ({"startingOffsets": '{"t":{"b":{"x":1}}}'}, "'x' is no queue id"),
        ({"startingOffsets": '{"t":{"b":{"0":1.5}}}'}, "queue '0': 1.5 is no offset"),
        ({"endingOffsets": '{"t":{"b":{"0":-2}}}'}, "endingOffsets cannot be earliest"),
        ({"endingOffsets": "earliest"}, "endingOffsets cannot be earliest"),
        ({"assign": '{"t":{"b":[]}}'}, "assign: "),
        ({"assign": "[1]"}, "assign: "),
        ({"subExpression": "A |"}, "subExpression: 'A .' is no tag"),
        ({"columns": ""}, "names with commas"),
        ({"storageOptions": '{"secret": "hidden'}, "option storageOptions must be a JSON object$"),
    ],
)
def test_what_is_wrong_is_reported(given: dict[str, str], told: str) -> None:
    with pytest.raises(PyrmqError, match=told):
        batch(**given)


def test_deep_json_is_an_error_and_not_a_crash() -> None:
    with pytest.raises(PyrmqError, match="startingOffsets"):
        batch(startingOffsets='{"a":' * 100_000 + "1" + "}" * 100_000)


def test_options_of_a_batch_are_refused_in_a_stream() -> None:
    for name, value in {"endingOffsets": "latest", "endingTimestamp": "5", "key": "k"}.items():
        with pytest.raises(PyrmqError, match=f"option {name} does not belong to a streaming read"):
            stream(**{name: value})


def test_the_least_and_the_most_of_a_micro_batch() -> None:
    given = stream(minOffsetsPerTrigger="10", maxOffsetsPerTrigger="10", maxTriggerDelay="5s")
    assert (given["minOffsetsPerTrigger"], given["maxTriggerDelay"]) == (10, 5000)
    with pytest.raises(PyrmqError, match="minOffsetsPerTrigger is 11, but maxOffsetsPerTrigger 10"):
        stream(minOffsetsPerTrigger="11", maxOffsetsPerTrigger="10")
    with pytest.raises(PyrmqError, match="maxTriggerDelay bounds how long minOffsetsPerTrigger"):
        stream(maxTriggerDelay="5s")


def test_headers_of_kafka_are_properties() -> None:
    assert batch(includeHeaders="false")["properties"] == "none"
    assert batch(includeHeaders="true")["properties"] == "map"


def test_before_the_kind_of_query_is_known_all_its_options_pass() -> None:
    given = Options({"maxOffsetsPerTrigger": "5", "startingOffsets": "latest"}, None)
    assert given["maxOffsetsPerTrigger"] == 5
    with pytest.raises(PyrmqError, match="did you mean"):
        Options({"maxOffsetsPerTriger": "5"}, None)


def test_checked_options_can_be_pickled() -> None:
    given = pickle.loads(pickle.dumps(batch(assign=json.dumps({"t": {"b": [1]}}))))
    assert given["assign"] == {"t": {"b": (1,)}}
    assert given.is_set("assign")
    assert given.query is Query.BATCH


def test_no_name_is_there_twice() -> None:
    assert len(TABLE) == len(OPTIONS)
