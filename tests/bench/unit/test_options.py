"""Options, sizes and files of mixed loads, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyrmq.bench.bodies import bodies, sizes
from pyrmq.bench.mixed import Mixed
from pyrmq.bench.options import OptionError, Options, parse_bytes, parse_tags, parse_time
from pyrmq.bench.where import Places, Target
from pyrmq.errors import PyrmqError


def test_times_sizes_and_tags() -> None:
    texts = ("10", "500ms", "1.5s", "2m", "1h")
    assert [parse_time(t) for t in texts] == [10.0, 0.5, 1.5, 120.0, 3600.0]
    assert [parse_bytes(t) for t in ("1", "64k", "1M")] == [1, 65_536, 1 << 20]
    assert parse_tags("A, B=3") == [("A", 1.0), ("B", 3.0)]
    for function, text in [
        (parse_time, "soon"),
        (parse_time, "-1"),
        (parse_bytes, "1.5"),
        (parse_bytes, "1g"),
        (parse_tags, "A=0"),
        (parse_tags, "A,,B"),
        (parse_tags, "A||B"),
    ]:
        with pytest.raises(OptionError, match="write it as"):
            function(text)


def test_sizes_of_bodies() -> None:
    assert sizes("1k") == [1024]
    even = sizes("100-200")
    assert (min(even) >= 100, max(even) <= 200, len(set(even)) > 50) == (True, True, True)
    assert even == sizes("100-200")
    mean = sizes("exp:1000")
    assert 700 < sum(mean) / len(mean) < 1300
    assert [len(b) for b in bodies("100-200")] == even
    assert len(bodies("1024", compression="zlib")[0]) < 1024
    for text in ("big", "200-100", "exp:0", "5m", "1-2-3", "0", "0-5"):
        with pytest.raises(OptionError):
            sizes(text)


def test_bodies_of_files(tmp_path: Path) -> None:
    one, empty = tmp_path / "one", tmp_path / "empty"
    one.write_bytes(b"\x00body")
    empty.write_bytes(b"")
    assert bodies("7", [one, one]) == [b"\x00body"] * 2
    with pytest.raises(OptionError, match="is empty"):
        bodies("7", [empty])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"load": "fly"}, "no load fly"),
        ({"address": ""}, "say what to measure"),
        ({"embedded": True}, "give one of"),
        ({"topic": "no topic"}, "illegal"),
        ({"group": "é"}, "illegal"),
        ({"connections": 0}, "--connections must be 1 to 60000"),
        ({"queues": 70_000}, "--queues must be"),
        ({"load": "pull", "rate": 5.0}, "--rate is for loads that send"),
        ({"load": "pull", "verify": True}, "--verify needs to know"),
        ({"load": "mixed"}, "mixed needs a file"),
        ({"oneway_end": True}, "--oneway-end is for transactions; send sends no END"),
        ({"timer_delay": 0}, "--timer-delay must be 1ms to 8784h"),
        ({"timer_delay": float("nan")}, "--timer-delay must be 1ms"),
        ({"delay_level": 19}, "--delay-level must be 1 to 18"),
        ({"count": 1 << 70}, "--count must be"),
        ({"pids": [1 << 40]}, "--pid must be"),
        ({"rate": float("inf")}, "--rate must be"),
        ({"rate": float("nan")}, "--rate must be"),
        ({"timeout": float("nan")}, "a time must be a number"),
        ({"flush": "SYNC_FLUSH"}, "--flush is for --embedded"),
        ({"cluster": "c"}, "--cluster is for --namesrv"),
        (
            {"load": "pull", "address": "", "embedded": True},
            "pull finds none: start",
        ),
        ({"properties": [("UNIQ_KEY", "x")]}, "the load sets it"),
        ({"tags": [("a|b", 1.0)]}, "is no tag"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], said: str) -> None:
    with pytest.raises(PyrmqError, match=said):
        Options(**{"load": "send", "address": "127.0.0.1:1", **options}).check()


def mixed(tmp_path: Path, text: str) -> Mixed:
    path = tmp_path / "load.toml"
    path.write_text(text)
    return Mixed.read(path, "T")


def test_the_topics_of_a_mixed_load(tmp_path: Path) -> None:
    text = '[[producer]]\ntopics = 2\n[[producer]]\ntopic = "U"\n[[consumer]]\ntopic = "U"\n'
    assert mixed(tmp_path, text).topics() == ["T-0", "T-1", "U"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "neither a"),
        ("x = ", "no TOML"),
        ("[producer]\nsize = 5", "write it as"),
        ("[[people]]", "people is unknown"),
        ("[[producer]]\nspeed = 5", "producer 1: speed is unknown: topic"),
        ("[[producer]]\nrate = 'fast'", "rate: str is the wrong type"),
        ("[[producer]]\nrate = 0", "rate must be above 0"),
        ("[[producer]]\nconnections = true", "bool is the wrong type"),
        ("[[consumer]]\n[[consumer]]\nkind = 'peek'", "consumer 2: kind is one of push, pull, pop"),
        ("[[producer]]\ntags = {A = 0}", "the weight of tag A"),
        ("[[producer]]\ntopic = 'a b'", "illegal"),
        ("[[consumer]]\nin_flight = 5", "consumer 1: in_flight is not for kind push"),
        ("[[consumer]]\nkind = 'pull'\nfrom_start = true", "from_start is not for kind pull"),
        ("[[producer]]\nrate = nan", "rate must be above 0"),
        ("[[producer]]\ntags = {A = inf}", "producer 1: 'A' with weight inf is no tag"),
        ("[[producer]]\ntags = {'A|B' = 1}", "is no tag"),
        ("[[producer]]\nproperties = {'' = 1}", "producer 1: property '=1': write NAME=VALUE"),
        ("[[producer]]\nproperties = {a = [1]}", "property a: a text or a number"),
        ('[[producer]]\nproperties = {a = "x\\u0001"}', "write NAME=VALUE"),
        ("[[producer]]\noneway_end = true", "producer 1: oneway_end is for kind transaction"),
        ("[[producer]]\nproperties = {WAIT = 'no'}", "use --flush-wait"),
        ("[[producer]]\n" * 1001, "1001 tables: 1000 at most"),
        ("x = 1" + "0" * 5000, "no TOML"),
        ("x = " + "[" * 5000, "no TOML"),
    ],
)
def test_files_that_are_wrong(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(PyrmqError, match=said):
        mixed(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        (
            "[[producer]]\nin_flight = 1" + "0" * 30,
            {},
            "producer 1: --in-flight must be 1 to",
        ),
        ("[[producer]]\nconnections = 60001", {}, "producer 1: --connections must be"),
        ("[[producer]]\nrate = inf", {}, "producer 1: --rate must be"),
        ("[[producer]]\nrate = 1e-9", {}, "producer 1: --rate must be"),
        ("[[producer]]\nkeys = 99999999999", {}, "producer 1: --keys must be"),
        ("[[producer]]\nsize = 99999999", {}, "producer 1: a body has 1 to"),
        ("[[producer]]\ntopics = 100001", {}, "producer 1: --topics must be"),
        ("[[consumer]]\nmax_msgs = 9999", {}, "consumer 1: --max-msgs must be"),
        ("[[consumer]]\ntags = 'A'\nsql = 'a > 1'", {}, "consumer 1: give tags or sql"),
        ("[[consumer]]", {"embedded": True}, "begins without messages"),
        ("[[producer]]", {"verify": True}, "needs one .* of topic T, .* there are 0"),
        ("[[producer]]\n[[consumer]]\n[[consumer]]", {"verify": True}, "there are 2"),
        ("[[producer]]\n[[consumer]]\ntopic='U'", {"verify": True}, "there are 0"),
        ("[[producer]]\n[[consumer]]\ntags='A'", {"verify": True}, "does not go with tags"),
        ("[[producer]]\n[[consumer]]\nkind='pull'", {"verify": True}, "needs kind push"),
    ],
)
def test_files_that_do_not_fit(
    tmp_path: Path, text: str, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(OptionError, match=said):
        mixed(tmp_path, text).check(Options("mixed", **options))


def test_what_a_file_does_not_say_is_as_on_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "load.toml"
    path.write_text("[[producer]]\n[[producer]]\ntags = {B = 1}\nproperties = {b = 2}\n")
    made = Mixed.read(path, "T", 3)
    assert made.topics() == ["T-0", "T-1", "T-2"]
    options = Options("mixed", tags=[("A", 1.0)], properties=[("a", "1")], topics=3)
    targets = [(t, "b", "127.0.0.1:1", 0) for t in made.topics()]
    queues: dict[str, list[Target]] = {t[0]: [t] for t in targets}
    plain, own = made.roles(options, Places(queues, queues))
    assert (plain["tags"], plain["properties"]) == ([("A", 1.0)], [("a", "1")])
    assert (own["tags"], own["properties"]) == ([("B", 1.0)], [("b", "2")])
    assert len(plain["targets"]) == 3
