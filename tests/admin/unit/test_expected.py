"""Which brokers should be there: lists, what was seen, and the file where that is kept."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from pyrmq.admin import expected as expected_module
from pyrmq.admin import expected as seen_file
from pyrmq.admin.expected import (
    KEEP_MS,
    Expectation,
    Expected,
    Missing,
    Seen,
    SeenFile,
    parse_expected,
    path_of,
)
from pyrmq.errors import ConfigError
from pyrmq.model.route import BrokerData, ClusterInfo

NOW = 1_800_000_000_000
SERVERS = [("10.0.0.9", 9876), ("10.0.0.8", 9876)]


def info(**brokers: dict[int, str]) -> ClusterInfo:
    return ClusterInfo({"C"}, {n: BrokerData("C", n, dict(at)) for n, at in brokers.items()})


BOTH = info(a={0: "h:1", 1: "h:2"}, b={0: "h:3", 1: "h:4"})


def places(missing: list[Missing]) -> list[tuple[str, int, bool]]:
    return [(m.broker_name, m.broker_id, m.whole) for m in missing]


def test_what_was_seen_is_missed_until_it_is_there_again() -> None:
    known = Expected()
    assert known.missing(info()) == []
    known.note(BOTH)
    half = info(a={0: "h:1", 1: "h:2"})
    assert places(known.missing(half)) == [("b", 0, True), ("b", 1, True)]
    assert places(known.missing_names(half)) == [("b", 0, True)]
    assert [m.address for m in known.missing_names(half)] == ["h:3"]
    no_slave = info(a={0: "h:1"}, b={0: "h:3", 1: "h:4"})
    assert places(known.missing(no_slave)) == [("a", 1, False)]
    assert known.missing_names(no_slave) == []
    no_master = info(a={1: "h:2"}, b={0: "h:3", 1: "h:4"})
    assert [m.label for m in known.without_master(no_master)] == ["a's master (was h:1)"]
    assert known.missing(BOTH) == []


def test_a_name_with_slaves_only_has_no_master_also_if_it_never_was_seen() -> None:
    assert [m.label for m in Expected().without_master(info(a={1: "h:2"}))] == ["a's master"]


def test_a_broker_that_has_another_name_now_is_not_missed() -> None:
    known = Expected()
    known.note(BOTH)
    known.note(info(a={0: "h:1", 1: "h:2"}, new={0: "h:3"}))
    assert places(known.missing(info(a={0: "h:1", 1: "h:2"}))) == [("b", 1, True), ("new", 0, True)]


def test_a_missing_broker_has_the_command_that_forgets_it() -> None:
    assert Missing("C", "a", 0, "h:1", NOW).error.hint.endswith("cluster forget a")
    hostile = Missing("C", "a; reboot", 0, "h:1", NOW).error.hint
    assert hostile.endswith("cluster forget 'a; reboot'")
    listed = Missing("C", "a", 0).error.hint
    assert listed == "start it, or take it from the expect list"


def test_lists() -> None:
    wanted = parse_expected(["a:2", "C/b", " ", "x/y:1"])
    assert wanted == [Expectation("a", "", 2), Expectation("b", "C"), Expectation("y", "x")]
    known = Expected(wanted)
    assert places(known.missing(info(a={0: "h:1"}, b={0: "h:3"}))) == [
        ("a", 1, False), ("y", 0, True),
    ]  # fmt: skip
    assert places(known.missing(info(a={0: "h:1", 3: "h:2"}, b={0: "h:3"}))) == [("y", 0, True)]
    elsewhere = Expected([Expectation("a", "D")])
    assert places(elsewhere.missing(info(a={0: "h:1"}))) == [("a", 0, True)]
    assert "it is expected, and no name server knows it" in known.missing(info())[0].text
    for bad in ("", "a:0", "a:x", "a:65", "C/", "a b", "/", "a" * 256, "a:"):
        with pytest.raises(ConfigError, match="that can be expected"):
            Expectation.parse(bad)
    with pytest.raises(ConfigError, match="more than"):
        parse_expected([f"b{n}" for n in range(expected_module.MAX_EXPECTED + 1)])


def test_it_forgets_in_time_and_keeps_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    now = NOW
    known = Expected(now=lambda: now)
    known.note(BOTH)
    now += KEEP_MS
    assert len(known.missing(info())) == 4
    known.keep_ms = 1000  # a monitor that forgets sooner
    assert known.missing(info()) == []
    now += 1
    known.note(info(a={0: "h:1"}))
    assert [s.broker_name for s in known.seen] == ["a"]
    monkeypatch.setattr(expected_module, "MAX_SEEN", 3)
    known.note(info(**{f"n{n}": {0: f"x:{n}"} for n in range(9)}))
    assert len(known.seen) == 3


def test_the_file_is_of_all_name_servers_that_were_named(tmp_path: Path) -> None:
    path = tmp_path / "state" / "brokers.json"
    SeenFile(path, SERVERS).expected().note(BOTH)
    half = info(a={0: "h:1", 1: "h:2"})
    for servers in (SERVERS, SERVERS[:1], SERVERS[1:]):
        assert len(SeenFile(path, servers).expected().missing(half)) == 2
    assert SeenFile(path, [("10.0.0.7", 9876)]).expected().missing(half) == []
    assert [p.name for p in path.parent.iterdir()] == ["brokers.json"]
    written = path.stat().st_mtime_ns, path.stat().st_ino
    SeenFile(path, SERVERS).expected().note(BOTH)  # it is there so already
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == written


def test_what_was_forgotten_stays_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "brokers.json"
    file = SeenFile(path, SERVERS)
    running = SeenFile(path, SERVERS).expected()  # a monitor, all the while
    running.note(BOTH)
    assert (file.forget("b"), file.forget("b"), file.forget("x")) == (2, 0, 0)
    half = info(a={0: "h:1", 1: "h:2"})
    assert file.expected().missing(half) == []
    running.note(half)
    assert running.missing(half) == []
    assert file.expected().missing(half) == []
    running.note(BOTH)
    assert len(file.expected().missing(half)) == 2


@pytest.mark.parametrize(
    "content",
    [b"", b"[1]", b"\xff\xfe", b'{"namesrv": 5}', b"[" * 100_000, b" " * (seen_file.MAX_BYTES + 1)],
)
def test_a_file_that_cannot_be_meant_is_told_and_begun_anew(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "brokers.json"
    path.write_bytes(content)
    known = SeenFile(path, SERVERS).expected()
    assert known.seen == []
    assert "is not what pyrmq wrote" in caplog.text
    known.note(BOTH)
    assert len(SeenFile(path, SERVERS).expected().seen) == 4


def test_rows_that_cannot_be_meant(tmp_path: Path) -> None:
    path = tmp_path / "brokers.json"
    good = ["C", "b", 0, "h:3", 10**15]
    rows = [good, 5, [], ["C", "", 0, "h", 1], ["C", "b" * 300, 0, "h", 1], [1, "b", 0, "h", 1]]
    path.write_text(json.dumps({"namesrv": {"10.0.0.9:9876": rows, "10.0.0.8:9876": 7}}))
    assert SeenFile(path, SERVERS).expected().seen == [Seen("C", "b", 0, "h:3", 10**15)]


def test_name_servers_that_were_not_asked_for_long_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seen_file, "MAX_NAME_SERVERS", 3)
    path = tmp_path / "brokers.json"
    for port in range(1, 6):
        SeenFile(path, [("h", port)]).expected().note(BOTH)
    assert list(json.loads(path.read_text())["namesrv"]) == ["h:3", "h:4", "h:5"]


def test_a_place_that_cannot_be_written_harms_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    caplog.set_level(logging.WARNING)
    known = SeenFile(tmp_path / "file" / "below" / "brokers.json", SERVERS).expected()
    known.note(BOTH)
    assert len(known.missing(info())) == 4


def test_where_it_is() -> None:
    assert path_of({"HOME": "/h"}) == Path("/h/.local/state/pyrmq/brokers.json")
    assert path_of({"HOME": "/h", "XDG_STATE_HOME": "/x"}) == Path("/x/pyrmq/brokers.json")
    assert path_of({"HOME": "/h", "PYRMQ_STATE": "/p"}) == Path("/p")
    assert path_of({"HOME": "/h", "PYRMQ_STATE": ""}) is None
    assert path_of({}) is None
