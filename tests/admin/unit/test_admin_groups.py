"""What Admin reads out of answers about groups, and names and texts that commands make of it."""

from __future__ import annotations

import pytest

from pyrmq.admin import values
from pyrmq.admin.consume_stats import group_of_retry_topic
from pyrmq.admin.group_config import GroupConfig, attributes_of
from pyrmq.admin.running_info import RunningInfo, queue_problems, subscriptions_agree
from pyrmq.cli.admin.view import moment
from pyrmq.cli.mqadmin.progress import file_name
from pyrmq.cli.mqadmin.text import seconds_text
from pyrmq.errors import ConfigError, ProtocolError
from pyrmq.model.versions import version_name


def test_running_info_of_others() -> None:
    def info(client: str, topic: str, *, orderly: bool = False, **row: object) -> RunningInfo:
        key = (("brokerName", "b"), ("queueId", 1), ("topic", topic))
        return RunningInfo.from_json(
            client,
            {
                "properties": {
                    "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
                    "PROP_CONSUMEORDERLY": orderly,
                    "PROP_CONSUMER_START_TIMESTAMP": "1",
                },
                "subscriptionSet": [{"topic": topic, "subString": "*"}],
                "mqTable": {key: row},
            },
        )

    now = 1_000_000
    first, other = info("c1", "A"), info("c2", "B")
    assert subscriptions_agree({"c1": first, "c2": first}, now)
    assert not subscriptions_agree({"c1": first, "c2": other}, now)
    assert subscriptions_agree({"c1": first, "c2": other}, 2), "they have only begun"
    blocked = info("c", "A", cachedMsgCount=1, lastConsumeTimestamp=now - 70_000)
    assert [p.text for p in queue_problems(blocked, now)] == [
        "can't consume for a while, maybe blocked, 70000ms"
    ]
    assert not queue_problems(first, now)
    locked = info("c", "A", orderly=True, locked=True, droped=True, tryUnlockTimes=2)
    assert [p.text for p in queue_problems(locked, now)] == ["unlock 2 times, still failed"]
    assert "can't lock" in queue_problems(info("c", "A", orderly=True), now)[0].text


def test_answers_that_cannot_be_meant() -> None:
    with pytest.raises(ProtocolError):
        RunningInfo.from_json("c", {"mqTable": {"no queue": {}}})
    assert values.real({"x": 10**400}, "x") == 0
    assert values.real({"x": float("nan")}, "x") == 0
    assert values.objects({"x": {}}, "x") == []
    assert seconds_text(10**17) == "1" + "0" * 17
    assert moment(10**17) == "1" + "0" * 17


def test_names() -> None:
    assert [version_name(n) for n in (0, 16, 213, 397, 478, 479, 612, 9999)] == [
        "V3_0_0_SNAPSHOT", "V3_0_1_SNAPSHOT", "V4_0_0", "V4_9_2", "V5_3_3_SNAPSHOT", "V5_3_3",
        "HIGHER_VERSION", "HIGHER_VERSION",
    ]  # fmt: skip
    assert group_of_retry_topic("%RETRY%g+t") == "g"
    assert file_name("1.2.3.4@7#8", 1) == "1.2.3.4@7#8"
    assert file_name("../../x", 2) == "_.._x_2"
    assert attributes_of("+a=b,-c") == {"+a": "b", "-c": ""}
    with pytest.raises(ConfigError):
        attributes_of("+a=b,+a=c")
    with pytest.raises(ConfigError, match="retryMaxTimes"):
        GroupConfig.from_json({"groupName": "g", "retryMaxTimes": True})
