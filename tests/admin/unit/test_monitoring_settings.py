"""The file of thresholds: strict, and one wrong key is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyrmq.admin.monitoring.alarms import number
from pyrmq.admin.monitoring.metrics import METRICS, Subject
from pyrmq.admin.monitoring.settings import ROUND_DOCS, Rounds, Settings, Watched, parse, read
from pyrmq.admin.monitoring.sink_settings import (
    CommandSettings,
    JsonSettings,
    LogSettings,
    WebhookSettings,
)
from pyrmq.errors import ConfigError

FILE = """
[rounds]
delay = 0
interval = 30
[watch]
groups = ["order-*", "bill"]
not_groups = ["*-test"]
[thresholds.lag]
raise = 100
clear = 50
rounds = 3
[thresholds.delay]
enabled = false
[[overrides]]
groups = ["order-*"]
lag = { raise = 1000, clear = 10 }
[[overrides]]
groups = ["order-1"]
topics = ["T?"]
lag = { rounds = 5, repeat = 0 }
delay = { enabled = true }
[[overrides]]
servers = ["broker-a"]
server_down = { rounds = 7 }
[[sinks]]
type = "log"
[[sinks]]
type = "json"
[[sinks]]
type = "command"
command = ["notify", "--it"]
timeout = 2
[[sinks]]
type = "webhook"
url = "https://example.org/alarms?k=1"
headers = { Authorization = "Bearer x" }
retries = 1
"""


def test_a_whole_file() -> None:
    found = parse(FILE)
    assert (found.rounds.delay, found.rounds.interval, found.rounds.at_once) == (0, 30, 8)
    assert found.watched.wants("order-1")
    assert not found.watched.wants("order-test")
    assert not found.watched.wants("other")

    def lag(group: str, topic: str) -> tuple[float, float, int, float]:
        t = found.threshold(Subject("lag", group, topic))
        return t.raise_at, t.clear_at, t.rounds, t.repeat

    assert lag("bill", "T1") == (100, 50, 3, 3600)
    assert lag("order-2", "T1") == (1000, 10, 3, 3600)
    assert lag("order-1", "T1") == (1000, 10, 5, 0)
    assert lag("order-1", "T10") == (1000, 10, 3, 3600)
    assert not found.threshold(Subject("delay", "bill", "T1")).enabled
    assert found.threshold(Subject("delay", "order-1", "T1")).enabled
    assert found.watches("delay")
    for server, rounds in (("broker-a h:1", 7), ("broker-b h:2", 2)):
        assert found.threshold(Subject("server_down", server=server)).rounds == rounds
    assert found.sinks == (
        LogSettings(),
        JsonSettings(),
        CommandSettings(("notify", "--it"), 2.0, 0, "command notify"),
        WebhookSettings(
            "https://example.org/alarms?k=1", 10.0, 1, {"Authorization": "Bearer x"},
            "webhook https://example.org",
        ),
    )  # fmt: skip


def test_an_empty_file_has_the_defaults() -> None:
    assert parse("") == Settings()
    assert Settings().watched == Watched()
    assert Settings().sinks == (LogSettings(),)
    for metric in METRICS.values():
        t = Settings().threshold(Subject(metric.name))
        assert (t.raise_at, t.clear_at, t.rounds) == (
            metric.raise_at, metric.clear_at, metric.rounds
        )  # fmt: skip
        assert t.clear_at < t.raise_at


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x =", "no TOML"),
        ("treshold = 1", "treshold: unknown key: there are overrides|did you mean thresholds"),
        ("[rounds]\nintervall = 1", r"rounds\.intervall: unknown key: did you mean interval\?"),
        ("[rounds]\ninterval = 0", r"rounds\.interval: 1 to"),
        ("[rounds]\ninterval = 'x'", "a number is wanted, not 'x'"),
        ("[rounds]\ninterval = nan", "is wanted, not nan"),
        ("[rounds]\nat_once = 1.5", "a whole number is wanted"),
        ("[rounds]\nat_once = true", "a whole number is wanted"),
        ("rounds = 1", "rounds: a table is wanted"),
        ("[watch]\ngroups = 'x'", "a list of texts is wanted"),
        ("[thresholds.lagg]\nraise = 1", r"thresholds\.lagg: there is no such .*lag"),
        ("[thresholds.lag]\nraise = 1", "both of raise and clear"),
        ("[thresholds.lag]\nraise = 1\nclear = 1", "clear has to be lower"),
        ("[thresholds.lag]\nraise = inf\nclear = 1", "not inf"),
        ("[thresholds.lag]\nround = 1", r"lag\.round: unknown key: did you mean rounds"),
        ("[thresholds.lag]\nenabled = 1", "true or false is wanted"),
        ("[[overrides]]\nlag = { rounds = 1 }", r"overrides\[1\]: say groups"),
        ("[[overrides]]\ngroups = ['g']", "changes no threshold"),
        ("[[overrides]]\ngroup = ['g']", r"overrides\[1\]|did you mean groups"),
        ("[[overrides]]\ngroups = ['g']\nlagg.rounds = 1", r"overrides\[1\]\.lagg: unknown: did"),
        ("[overrides]\ngroups = ['g']", r"write each of them as \[\[overrides\]\]"),
        ("[[sinks]]", r"sinks\[1\]\.type is missing"),
        ("[[sinks]]\ntype = 'web'", "'web' is none: did you mean webhook"),
        ("[[sinks]]\ntype = 'log'\nlevel = 1", r"sinks\[1\]\.level: unknown key"),
        ("[[sinks]]\ntype = 'command'\ncommand = 'rm -rf /'", "a list of texts is wanted"),
        ("[[sinks]]\ntype = 'command'", "the program and its arguments"),
        ("[[sinks]]\ntype = 'command'\ncommand = [\"a\\u0000\"]", "NUL"),
        ("[[sinks]]\ntype = 'webhook'\nurl = 'file:///etc/passwd'", "http://host/path"),
        ("[[sinks]]\ntype = 'webhook'\nurl = 'http://h:x/'", "http://host/path"),
        ("[[sinks]]\ntype = 'webhook'\nurl = 'http://a:b@h/'", "put credentials into headers"),
        ("[[sinks]]\ntype='webhook'\nurl='http://h'\nheaders={\"a b\"='c'}", "cannot be set"),
        ("[[sinks]]\ntype='webhook'\nurl='http://h'\nheaders={a=\"c\\nd: e\"}", "printable ASCII"),
        ("[[sinks]]\ntype='webhook'\nurl='http://h'\nretries=99", r"retries: 0 to 10"),
    ],
    ids=range(33),
)  # fmt: skip
def test_what_cannot_be_meant_is_named(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse(text)


def test_the_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "m.toml"
    path.write_text("x = 1")
    with pytest.raises(ConfigError, match=r"m\.toml: x: unknown key"):
        read(path)
    path.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="not UTF-8"):
        read(path)
    path.write_bytes(b"#" * (2 << 20))
    with pytest.raises(ConfigError, match="no file of thresholds"):
        read(path)
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "absent")


def test_the_page_has_every_figure_and_key_with_its_default() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "monitoring.md").read_text()
    for m in METRICS.values():
        numbers = f"{number(m.raise_at)} | {number(m.clear_at)} | {m.rounds} | {m.unit}"
        assert f"| `{m.name}` | {m.per} | {m.doc} | {numbers} |" in page
    for name, doc in ROUND_DOCS.items():
        assert f"| `rounds.{name}` | {number(getattr(Rounds(), name))} | {doc} |" in page
