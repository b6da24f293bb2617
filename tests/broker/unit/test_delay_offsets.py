"""config/delayOffset.json: what is read from files of ours and of RocketMQ, and what is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio

from pyrmq.broker.delay import DelayOffsets
from pyrmq.errors import ConfigError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config" / "delayOffset.json"


def read(path: Path, text: str) -> DelayOffsets:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return DelayOffsets(path, 3)


@pytest.mark.parametrize(
    ("text", "offsets", "log_end"),
    [
        ('{"offsetTable":{"1":5,"3":7},"logEnd":99}', [5, 0, 7], 99),
        ('{"offsetTable":{1:5,3:7}}', [5, 0, 7], None),
        ('{"offsetTable":{1:5,2:0\n\t}\n}', [5, 0, 0], None),
        ('{"offsetTable":{"1":"5"},"logEnd":"99"}', [5, 0, 0], 99),
        ('{"offsetTable":{"0":4,"1":5,"-1":4,"x":4}}', [5, 0, 0], None),
        ('{"offsetTable":{"1":-5,"2":null,"3":{}},"logEnd":-1}', [0, 0, 0], None),
        ('{"offsetTable":[1,2,3],"logEnd":0}', [0, 0, 0], 0),
        ('{"logEnd":null}', [0, 0, 0], None),
        ("{}", [0, 0, 0], None),
    ],
)
def test_what_is_read(path: Path, text: str, offsets: list[int], log_end: int | None) -> None:
    table = read(path, text)
    assert (table.offsets, table.log_end) == (offsets, log_end)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"offsetTable":{"1":5,"2":"6","3":0},"logEnd":9}', []),
        ('{"offsetTable":{"1":-5}}', ["-5 of delay level 1"]),
        ('{"offsetTable":{"1":"a\\nb","2":true}}', [r"'a\nb' of delay", "True of delay level 2"]),
        ('{"offsetTable":{"x":4,"0":4}}', ["level 'x'", "level '0'"]),
        ('{"offsetTable":[1]}', ["no table: [1]"]),
        ('{"offsetTable":{},"logEnd":-3}', ["logEnd -3"]),
        ('{"offsetTable":{},"logEnd":{}}', ["logEnd {}"]),
        ("{}", []),
    ],
)
def test_nonsense_is_told(
    path: Path, caplog: pytest.LogCaptureFixture, text: str, told: list[str]
) -> None:
    read(path, text)
    assert len(caplog.messages) == len(told), caplog.messages
    for line, part in zip(caplog.messages, told, strict=True):
        assert part in line


def test_a_store_without_the_file(path: Path) -> None:
    table = DelayOffsets(path, 2)
    assert (table.offsets, table.log_end) == ([0, 0], None)


def test_a_file_that_cannot_be_read_is_not_taken_for_none(path: Path) -> None:
    """Else everything would be delivered again."""
    with pytest.raises(ConfigError, match=r"delayOffset\.json"):
        read(path, '{"offsetTable":')


def test_what_is_written_is_read_again(path: Path) -> None:
    table = read(path, '{"offsetTable":{1:5},"dataVersion":{"counter":7,"timestamp":1}}')
    trio.run(table.save_if_changed)
    assert "logEnd" not in path.read_text(), "nothing has changed"
    table.set([6, 0, 2], 1 << 40)
    trio.run(table.save_if_changed)
    value = json.loads(path.read_text())
    assert value["offsetTable"] == {"1": 6, "2": 0, "3": 2}
    assert value["logEnd"] == 1 << 40
    assert value["dataVersion"]["counter"] == 8
    again = DelayOffsets(path, 3)
    assert (again.offsets, again.log_end) == ([6, 0, 2], 1 << 40)


def test_levels_that_are_unknown_at_the_moment_are_kept(path: Path) -> None:
    """messageDelayLevel may name them again later."""
    table = read(path, '{"offsetTable":{"1":1,"2":2,"3":3,"4":4},"logEnd":9}')
    table.set([1, 2, 5], 10)
    trio.run(table.save_if_changed)
    assert json.loads(path.read_text())["offsetTable"] == {"1": 1, "2": 2, "3": 5, "4": 4}
