"""Files that the commands write, and files that they are given."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pyrmq.bench import bodies
from pyrmq.bench.result import ResultFormatError, parse_result, read_result, write_file
from pyrmq.cli import main
from tests.bench.lying import LyingBroker
from tests.bench.unit.canned import result
from tests.support.scripted.sockets import SocketServer


def invoke(*words: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["bench", *map(str, words)])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["send", "--count", "1"], "--json"),
        (["send", "--count", "1"], "--hdr"),
        (["sweep"], "--json"),
        (["sweep"], "--plot"),
        (["peers", "--peer", "floor"], "--json"),
        (["peers", "--peer", "floor"], "--html"),
        (["peers", "--peer", "floor"], "--markdown"),
    ],
)
@pytest.mark.parametrize("path", ["/proc/none.json", "/no-such-folder/x.json"])
def test_a_file_that_cannot_be_written_is_told_before_the_load(
    words: list[str], option: str, path: str
) -> None:
    broker = LyingBroker()
    with SocketServer(broker).serving() as address:
        tail = ["send"] if words[0] == "sweep" else []
        where = [] if words[0] == "peers" else ["--address", address]
        code, text = invoke(*words, option, path, *tail, *where)
    assert code == 2
    assert f"Invalid value for {option}: {path} cannot be written" in text
    assert broker.asked == []


@pytest.mark.parametrize("load", ["send", "mixed"])
def test_a_payload_file_is_read_once(
    load: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It may be a pipe, or change: the result names what was read first.
    body, table = tmp_path / "body", tmp_path / "load.toml"
    body.write_bytes(b"first")
    table.write_text('[[producer]]\ntopic = "A"\n')
    read = bodies._content

    def once(path: Path) -> bytes:
        content = read(path)
        path.write_bytes(b"second")
        return content

    monkeypatch.setattr(bodies, "_content", once)
    broker = LyingBroker()
    words: list[str | Path] = [load, "--file", table] if load == "mixed" else [load]
    with SocketServer(broker).serving() as address:
        code, text = invoke(*words, "--address", address, "--payload-file", body, "--count", "3")
    assert code == 0, text
    assert {c.body for c in broker.sends} == {b"first"}


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    code, text = invoke("send", "--json", path, "--hdr", path)
    assert (code, "is also that of --json" in text) == (2, True)
    assert not path.exists()


def test_a_load_that_fails_leaves_files_as_they_were(tmp_path: Path) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text("old")
    for path in (old, new):
        code, text = invoke("send", "--address", "127.0.0.1:1", "--json", path)
        assert (code, "cannot connect" in text) == (1, True)
    assert (old.read_text(), new.exists()) == ("old", False)


def test_a_result_that_cannot_be_written_is_still_shown() -> None:
    with SocketServer(LyingBroker()).serving() as address:
        words = ("--address", address, "--count", "3", "--queues", "1", "--json", "/dev/full")
        code, text = invoke("send", *words)
        assert code == 1
        assert "acknowledged 3 messages" in text
        assert "--json /dev/full was not written: No space left" in text
        # And so is one whose interval log cannot be written.
        code, text = invoke("send", *words[:-2], "--hdr", "/dev/full")
        assert code == 1
        assert "acknowledged 3 messages" in text
        assert "--hdr /dev/full: No space left" in text


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path, link = tmp_path / "real.json", tmp_path / "link.json"
    path.write_text("old")
    link.symlink_to(path)
    with pytest.raises(UnicodeEncodeError):
        write_file(path, "\udcff")
    assert path.read_text() == "old"
    write_file(link, "new")
    assert (path.read_text(), link.is_symlink()) == ("new", True)
    assert sorted(os.listdir(tmp_path)) == ["link.json", "real.json"]


def test_a_load_without_one_message_is_no_success() -> None:
    with SocketServer(LyingBroker(lambda n: "refuse")).serving() as address:
        code, text = invoke("send", "--address", address, "--count", "3")
    assert (code, "3 x SYSTEM_BUSY" in text) == (1, True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("NaN", "no JSON: NaN"),
        ("-Infinity", "no JSON: -Infinity"),
        ("1e999", "x.rate: a finite number"),
        ("1" + "0" * 400, "x.rate: a finite number"),
    ],
)
def test_numbers_that_are_none_are_refused(tmp_path: Path, text: str, said: str) -> None:
    value = result().to_json()
    value["rate"] = "HERE"
    path = tmp_path / "x"
    path.write_text(json.dumps(value).replace('"HERE"', text))
    with pytest.raises(ResultFormatError) as error:
        read_result(path)
    assert said in str(error.value).replace(str(path), "x")
    code, output = invoke("compare", path, path)
    assert (code, "Error: " in output) == (1, True)


def test_a_result_without_numbers_is_not_written(tmp_path: Path) -> None:
    from pyrmq.bench.result import write_result

    with pytest.raises(ValueError, match="JSON"):
        write_result(tmp_path / "x", result(rate=1.0, p99=float("nan")))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("pyrmq-bench/0", "write it again with this release"),
        (
            "pyrmq-bench-sweep/1",
            "a file of `pyrmq bench sweep --json`; give a file of `pyrmq bench",
        ),
        ("pyrmq-bench-peers/1", "a file of `pyrmq bench peers --json`; give a file of"),
        ("something", "here: give a file of `pyrmq bench LOAD --json`"),
        ({"a": 1}, "give a file of `pyrmq bench LOAD --json`"),
    ],
)
def test_files_of_other_commands_are_named(tmp_path: Path, schema: Any, said: str) -> None:
    with pytest.raises(ResultFormatError) as error:
        parse_result({"schema": schema}, "x")
    assert said in str(error.value)
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"schema": schema}))
    code, text = invoke("compare", path, path)
    assert (code, said in text) == (1, True)


def test_peers_says_what_it_reads(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(result().to_json()))
    code, text = invoke("peers", "--from", path)
    assert code == 1
    assert "it is a file of `pyrmq bench LOAD --json`; give a file of `pyrmq bench peers" in text


def test_folders_in_a_folder_of_runs_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "1.json").write_text(json.dumps(result().to_json()))
    (tmp_path / "loop.json").symlink_to(tmp_path)
    code, text = invoke("compare", tmp_path, tmp_path / "1.json")
    assert (code, "1 run" in text) == (0, True)


def test_the_content_of_files_makes_a_load_and_not_their_names(tmp_path: Path) -> None:
    load, body = tmp_path / "load.toml", tmp_path / "body"
    found = []
    with SocketServer(LyingBroker()).serving() as address:
        for number, (rate, text) in enumerate([(100, "a"), (200, "a"), (100, "b"), (100, "a")]):
            load.write_text(
                f"[[producer]]\nrate = {rate}\nproperties = {{ n = nan, d = 1979-05-27 }}"
            )
            body.write_text(text)
            found.append(tmp_path / f"{number}.json")
            words = ("--address", address, "--file", load, "--payload-file", body, "--count", "3")
            code, said = invoke("mixed", *words, "--json", found[-1])
            assert (code, "acknowledged 3" in said) == (0, True)
            load = load.rename(tmp_path / f"load{number}.toml")
    first, faster, other, same = found
    assert invoke("compare", first, same)[0] == 0
    assert "mixed " in invoke("compare", first, faster)[1]
    assert "payload " in invoke("compare", first, other)[1]
