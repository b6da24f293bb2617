"""`pyrmq store …`: what is printed, exit codes, and repairs there and back."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pyrmq.cli import main
from pyrmq.engine import Store
from tests.store.tools import (
    GOLDEN,
    QUEUE_FILE,
    contents,
    image,
    log_file,
    opened,
    overwrite,
    queue_files,
    read_all,
    unpack,
)
from tests.support.command import PYRMQ, assert_refused, environment, run
from tests.support.records import encode_properties

QUEUE = "consumequeue/Golden/0/00000000000000000000"
FILE = 4096


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    """A store that RocketMQ wrote and stopped cleanly."""
    return unpack(GOLDEN, tmp_path) / "store"


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A store of ours with 40 messages in four queues and several log files."""
    root = tmp_path / "own"
    with opened(root, commit_log_file_size=FILE) as store:
        for n in range(40):
            store.put(f"T{n % 2}", n // 2 % 2, b"%d" % n * 50, encode_properties({"KEYS": f"k{n}"}))
    return root


def pyrmq(*args: Any, stdin: str | None = None) -> Result:
    result = CliRunner().invoke(main, ["store", *map(str, args)], input=stdin)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def flip(path: Path, at: int) -> None:
    overwrite(path, at, bytes([path.read_bytes()[at] ^ 1]))


def aside_of(root: Path) -> Path:
    (path,) = root.glob("repair-*")
    return path


def test_inspect(golden: Path) -> None:
    result = pyrmq("inspect", golden)
    assert (result.exit_code, result.stderr) == (0, "")
    words = [line.split() for line in result.stdout.splitlines()]
    assert ["Golden-0", "0", "40", "40"] in words
    assert ["commitlog", "4", "262144", "262144"] in words
    assert result.stdout.splitlines()[0].endswith(": stopped cleanly")
    report = json.loads(pyrmq("inspect", golden, "--json").stdout)
    assert report["commitLog"]["fileSize"] == 65_536
    assert len(report["queues"]) == 10


def test_inspect_of_an_open_store_says_so(own: Path) -> None:
    with opened(own, commit_log_file_size=FILE):
        assert pyrmq("inspect", own).stdout.splitlines()[0].endswith(": open in a broker")
    (own / "abort").touch()
    assert "not stopped cleanly" in pyrmq("inspect", own).stdout


def test_verify_of_a_sound_store(golden: Path) -> None:
    result = run("store", "verify", str(golden))
    assert (result.returncode, result.stderr) == (0, b"")
    assert result.stdout.decode().splitlines() == [
        "300 records (0 to 207319), 300 entries in 10 queues, 462 in 1 index files",
        "sound, 0 warnings",
    ]


def test_verify_of_a_damaged_store(golden: Path) -> None:
    flip(golden / QUEUE, 27)
    result = run("store", "verify", str(golden))
    assert (result.returncode, result.stderr) == (1, b"")
    lines = result.stdout.decode().splitlines()
    assert lines[0] == f"damage {QUEUE}:20 entry 1: no record starts at 241"
    assert lines[-1] == "DAMAGED: 1 findings, 0 warnings"
    report = json.loads(pyrmq("verify", golden, "--json").stdout)
    assert report["summary"]["damage"] == 1
    assert report["findings"][0]["path"] == QUEUE
    assert report["findings"][0]["at"] == 20


@pytest.fixture
def many(golden: Path, own: Path) -> tuple[Path, Path]:
    """The store of a first broker, and in it that of a second one."""
    inner = golden / "brokers" / "broker-b"
    shutil.copytree(own, inner)
    (golden / "brokers" / "empty" / "commitlog").mkdir(parents=True)
    return golden, inner


def test_stores_of_several_brokers_are_inspected(many: tuple[Path, Path]) -> None:
    root, inner = many
    lines = pyrmq("inspect", root).stdout.splitlines()
    assert [line.split()[1] for line in lines if line.startswith("store ")] == [
        f"{root}:",
        f"{inner}:",
    ]
    assert not any("unknown" in line for line in lines)
    report = json.loads(pyrmq("inspect", root, "--json").stdout)
    assert report["path"] == str(root)
    assert [one["path"] for one in report["brokers"]] == [str(inner)]
    assert "brokers" not in json.loads(pyrmq("inspect", root, "--alone", "--json").stdout)


def test_stores_of_several_brokers_are_verified(many: tuple[Path, Path]) -> None:
    root, inner = many
    result = pyrmq("verify", root)
    assert (result.exit_code, result.stderr) == (0, "")
    heads = [line for line in result.stdout.splitlines() if line.startswith("store ")]
    assert heads == [f"store {root}", f"store {inner}"]
    flip(next(inner.glob("consumequeue/T0/0/*")), 7)
    assert pyrmq("verify", root).exit_code == 1
    report = json.loads(pyrmq("verify", root, "--json").stdout)
    assert report["summary"]["damage"] == 0
    assert report["brokers"][0]["store"] == str(inner)
    assert report["brokers"][0]["summary"]["damage"] > 0
    assert pyrmq("verify", root, "--alone").exit_code == 0
    with opened(inner, commit_log_file_size=FILE):
        refused = pyrmq("verify", root)
    assert refused.exit_code == 2
    assert str(inner) in refused.stderr


@pytest.mark.parametrize("command", [("dump", "-n", "1"), ("repair", "--index", "-y")])
def test_a_command_for_one_store_names_the_others(
    many: tuple[Path, Path], command: tuple[str, ...]
) -> None:
    root, inner = many
    name, *options = command
    before = contents(inner)
    result = pyrmq(name, root, *options)
    assert result.exit_code == 0
    said = f"{root} alone; left out, as each has a broker of its own: {inner}"
    assert result.stderr.splitlines()[0] == said
    assert contents(inner) == before
    assert pyrmq(name, inner, *options).stderr == ""


def test_what_cannot_be_read(tmp_path: Path) -> None:
    for command in ("inspect", "verify", "dump", "repair"):
        result = run("store", command, str(tmp_path / "nowhere"))
        assert_refused(result, "nowhere" if command == "repair" else "")
        assert result.returncode == 2
        assert run("store", command, str(tmp_path)).returncode == 2
        assert list(tmp_path.iterdir()) == []


def test_a_store_in_use_is_not_verified_or_repaired(own: Path) -> None:
    with opened(own, commit_log_file_size=FILE) as store:
        for command in ("verify", "repair"):
            result = run("store", command, str(own))
            assert_refused(result, "a broker has this store open")
            assert result.returncode == 2
        store.put("T0", 0, b"one more")
        lines = pyrmq("dump", own, "-t", "T0", "-q", 0).stdout.splitlines()
        assert json.loads(lines[-1])["body"] == "one more"
    assert not list(own.glob("repair-*"))


def test_a_log_elsewhere(own: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "disk" / "log"
    elsewhere.parent.mkdir()
    (own / "commitlog").rename(elsewhere)
    assert pyrmq("verify", own).exit_code == 2
    result = pyrmq("verify", own, "--commitlog", elsewhere)
    assert (result.exit_code, result.stdout[:10]) == (0, "40 records")


def dumped(*args: Any) -> list[dict[str, Any]]:
    result = pyrmq("dump", *args)
    assert (result.exit_code, result.stderr) == (0, "")
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_dump_selects(own: Path) -> None:
    everything = dumped(own)
    assert [r["body"] for r in everything] == [f"{n}" * 50 for n in range(40)]
    assert dumped(own, "--max", 3) == everything[:3]
    assert dumped(own, "--phys", everything[5]["commitLogOffset"], "-n", 2) == everything[5:7]
    assert dumped(own, "--topic", "T1", "--queue", 1) == everything[3::4]
    assert dumped(own, "--topic", "T1", "--queue", 1, "--offset", 7) == everything[3::4][7:]
    assert dumped(own, "--topic", "T1", "--queue", 1, "--scan") == everything[3::4]
    assert dumped(own, "--key", "k17") == [everything[17]]
    assert dumped(own, "--key", "k17", "--topic", "T1") == [everything[17]]
    assert dumped(own, "--key", "k17", "--topic", "T0") == []
    assert dumped(own, "--msg-id", everything[9]["msgId"]) == [everything[9]]
    assert dumped(own, "--msg-id", "0" * 32) == []


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--queue", "1"], "--topic"),
        (["--offset", "1"], "--topic"),
        (["--phys", "1", "--key", "k"], "exclude"),
        (["--body", "xml"], "xml"),
    ],
)
def test_dump_refuses_what_makes_no_sense(own: Path, options: list[str], word: str) -> None:
    result = pyrmq("dump", own, *options)
    assert result.exit_code == 2
    assert word in result.stderr


def test_bodies(tmp_path: Path) -> None:
    import zlib

    with opened(tmp_path) as store:
        store.put("T", 0, "grün".encode())
        store.put("T", 0, b"\xff\x00")
        store.put("T", 0, zlib.compress(b"packed"), sys_flag=1)
        store.put("T", 0, b"not packed", sys_flag=1)

    def bodies(form: str) -> list[tuple[str, str]]:
        return [(r["bodyEncoding"], r["body"]) for r in dumped(tmp_path, "--body", form)]

    assert bodies("text") == [
        ("text", "grün"), ("base64", "/wA="), ("text", "packed"), ("base64", "bm90IHBhY2tlZA=="),
    ]  # fmt: skip
    assert bodies("hex")[1] == ("hex", "ff00")
    assert bodies("base64")[0] == ("base64", "Z3LDvG4=")
    records = dumped(tmp_path, "--body", "none")
    assert [r["bodyLength"] for r in records] == [5, 2, 14, 10]
    assert not any("body" in r for r in records)


def test_dump_reports_damage_on_stderr(own: Path) -> None:
    second = dumped(own)[1]["commitLogOffset"]
    flip(log_file(own), second + 90)
    result = pyrmq("dump", own)
    assert result.exit_code == 1
    assert len(result.stdout.splitlines()) == 39
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"damage commitlog/{0:020d}:{second} body CRC differs")


def test_dump_into_a_closed_pipe(golden: Path) -> None:
    with subprocess.Popen(
        [*PYRMQ, "store", "dump", str(golden)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""


def without(root: Path, *folders: str) -> dict[str, bytes]:
    names = ("repair-", "lock", *folders)
    return {k: v for k, v in contents(root).items() if not k.startswith(names)}


def test_repair_of_queues_gives_those_of_rocketmq(golden: Path) -> None:
    before = without(golden, "checkpoint")
    flip(golden / QUEUE, 27)
    shutil.rmtree(golden / "consumequeue" / "Golden" / "1")
    assert pyrmq("verify", golden).exit_code == 1
    bad = contents(golden / "consumequeue")
    result = pyrmq("repair", golden, "--queues", "--yes")
    assert result.exit_code == 0, result.output
    assert "rebuilt: 10 queues" in result.stdout
    assert result.stdout.splitlines()[-1] == "sound, 0 warnings"
    assert without(golden, "checkpoint") == before
    assert contents(aside_of(golden) / "consumequeue") == bad


def test_repair_asks_first(own: Path) -> None:
    before = contents(own)
    assert pyrmq("repair", own, "--queues", stdin="n\n").exit_code == 1
    assert contents(own) == before
    assert pyrmq("repair", own, "--queues", stdin="y\n").exit_code == 0
    assert aside_of(own).is_dir()


@pytest.mark.parametrize("harm", ["deleted", "damaged", "one file"])
def test_repair_of_queues_of_ours(own: Path, harm: str) -> None:
    with opened(own, commit_log_file_size=FILE) as store:
        records = read_all(store)
    log = contents(own / "commitlog")
    if harm == "deleted":
        shutil.rmtree(own / "consumequeue")
    elif harm == "damaged":
        overwrite(queue_files(own, "T0", 1)[0], 40, random.Random(1).randbytes(60))
    else:
        queue_files(own, "T1", 0)[0].unlink()
    size = ["--queue-file-size", QUEUE_FILE] if harm == "deleted" else []
    assert pyrmq("repair", own, "--queues", "-y", *size).exit_code == 0
    assert pyrmq("verify", own).exit_code == 0
    assert contents(own / "commitlog") == log
    assert (aside_of(own) / "consumequeue").exists() == (harm != "deleted")
    with opened(own, commit_log_file_size=FILE) as store:
        assert read_all(store) == records


def test_repair_keeps_the_offsets_of_expired_queues(own: Path) -> None:
    with opened(own, commit_log_file_size=FILE) as store:
        store.put("Old", 0, b"soon expired")
        store.put("Old", 0, b"soon expired")
        while store.stats()["maxPhyOffset"] < 6 * FILE:
            store.put("T0", 0, b"x" * 500)
    for path in sorted((own / "commitlog").iterdir())[:5]:
        path.unlink()
    assert pyrmq("verify", own).exit_code == 0
    assert pyrmq("repair", own, "--queues", "-y").exit_code == 0
    with opened(own, commit_log_file_size=FILE) as store:
        assert store.queue_range("Old", 0) == (2, 2)
        assert store.put("Old", 0, b"new")[2] == 2


def test_repair_copies_a_torn_tail(own: Path, tmp_path: Path) -> None:
    with opened(own, commit_log_file_size=FILE):
        killed = image(own, tmp_path / "killed")
    last = dumped(killed)[-1]
    path = sorted(f for f in (killed / "commitlog").iterdir() if f.read_bytes().strip(b"\0"))[-1]
    at = last["commitLogOffset"] - int(path.name)
    torn = path.read_bytes()[at : at + 120]
    overwrite(path, at + 120, bytes(last["storeSize"] - 120))
    result = pyrmq("repair", killed, "--queues", "-y")
    assert result.exit_code == 0, result.output
    (tail,) = aside_of(killed).glob("commitlog-tail-*")
    assert tail.name == f"commitlog-tail-{last['commitLogOffset']:020d}"
    assert tail.read_bytes() == torn.rstrip(b"\0")
    assert len(dumped(killed)) == 39


def test_a_damaged_log_is_left_alone(own: Path) -> None:
    flip(log_file(own), dumped(own)[1]["commitLogOffset"] + 90)
    before = contents(own)
    result = pyrmq("repair", own, "-y")
    assert result.exit_code == 1
    assert "the log itself is damaged" in result.stderr
    assert "body CRC differs" in result.stdout
    assert contents(own) == before


def test_a_short_checkpoint_is_mended_too(own: Path) -> None:
    os.truncate(own / "checkpoint", 10)
    assert pyrmq("verify", own).exit_code == 1
    assert pyrmq("repair", own, "--queues", "-y").exit_code == 0
    assert (aside_of(own) / "checkpoint").stat().st_size == 10
    assert (own / "checkpoint").stat().st_size == 4096


def writes_index(tmp_path: Path) -> bool:
    store = Store(tmp_path / "probe", commit_log_file_size=FILE)
    try:
        return "indexedWhere" in store.stats()
    finally:
        store.close()


@pytest.mark.parametrize("harm", ["deleted", "damaged"])
def test_repair_of_the_index(golden: Path, tmp_path: Path, harm: str) -> None:
    if not writes_index(tmp_path):
        pytest.skip("this engine writes no index")
    (path,) = (golden / "index").iterdir()
    if harm == "deleted":
        path.unlink()
    else:
        flip(path, 40 + 500 * 4 + 5 * 20 + 11)
        assert pyrmq("verify", golden).exit_code == 1
    queues = contents(golden / "consumequeue")
    size = ["--index-size", 500, 1000] if harm == "deleted" else []
    result = pyrmq("repair", golden, "--index", "-y", *size)
    assert result.exit_code == 0, result.output
    assert contents(golden / "consumequeue") == queues
    report = json.loads(pyrmq("verify", golden, "--json").stdout)
    summary = report["summary"]
    assert (summary["indexEntries"], summary["keysToIndex"], report["findings"]) == (462, 0, [])
    assert len(dumped(golden, "-t", "Golden", "-k", "shared")) > 1
