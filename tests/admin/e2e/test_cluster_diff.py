"""`pyrmq admin cluster diff`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyrmq.net.address import format_address
from pyrmq.server import Running
from tests.support.mqadmin import admin, mqadmin


async def test_two_exports_of_a_broker(embedded: Running, tmp_path: Path) -> None:
    broker = format_address(embedded.broker_address)
    files = []
    for queues in ("4", "8"):
        folder = tmp_path / queues
        await mqadmin(embedded.namesrv, "updateTopic", "-b", broker, "-t", "Own", "-r", queues)
        ran = await admin(
            embedded.namesrv, "export", "metadata", "-b", broker, "--folder", str(folder)
        )
        assert ran.code == 0, ran.err
        files.append(str(folder / "metadata.json"))
    ran = await admin("", "cluster", "diff", *files)
    assert ran.code == 0
    assert [line.split() for line in ran.lines] == [
        ["KIND", "NAME", "CHANGE", "FIELD", "OLD", "NEW"],
        ["topic", "Own", "changed", "readQueueNums", "4", "8"],
    ]
    ran = await admin("", "cluster", "diff", *files, "--exit-code", "-o", "json")
    assert ran.code == 3
    found = json.loads(ran.out)
    assert found["compared"] == ["topic", "group"]
    assert found["changes"] == [
        {"kind": "topic", "name": "Own", "change": "changed", "field": "readQueueNums",
         "old": 4, "new": 8}
    ]  # fmt: skip
    same = await admin("", "cluster", "diff", files[0], files[0], "--exit-code")
    assert (same.code, same.out) == (0, "no difference\n")
    yaml = await admin("", "cluster", "diff", *files, "-o", "yaml")
    assert yaml.lines[0] == "equal: false"


@pytest.mark.parametrize(("text", "said"), [("{", "no JSON"), (None, "No such file")], ids=range(2))
async def test_a_file_that_cannot_be_read(tmp_path: Path, text: str | None, said: str) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.write_text('{"clusterScale": {}}')
    if text is not None:
        bad.write_text(text)
    for files in ((good, bad), (bad, good)):
        ran = await admin("", "cluster", "diff", *map(str, files))
        assert ran.code == 2
        assert said in ran.err
        assert ran.err.startswith("Error: ")


async def test_names_cannot_steer_a_terminal(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text('{"topicConfigTable": {}}')
    new.write_text('{"topicConfigTable": {"\\u001b[2J": {}}}')
    ran = await admin("", "cluster", "diff", str(old), str(new))
    assert "\\x1b[2J" in ran.out
    assert "\x1b" not in ran.out
