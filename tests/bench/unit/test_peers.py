"""`pyrmq bench peers` with peers that are made up, and what their clients really print."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from benches import flame, saved
from pyrmq.bench import svg
from pyrmq.bench.peers import kafka, nats, remoting
from pyrmq.bench.peers.apache import Apache
from pyrmq.bench.peers.known import KEYS, peers
from pyrmq.bench.peers.markdown import markdown
from pyrmq.bench.peers.ours import Floor
from pyrmq.bench.peers.page import page
from pyrmq.bench.peers.peer import (
    Load,
    Measured,
    Plan,
    Serving,
    Unavailable,
    free_ports,
    output_of,
    process,
)
from pyrmq.bench.peers.report import read_report, write_report
from pyrmq.bench.result import BenchError
from pyrmq.cli import main
from tests.bench.unit.canned import parsed, result, texts
from tests.bench.unit.made import TWO, Made, measured


def test_peers_have_their_windows_in_turns() -> None:
    floor, ours = Made("floor", [200, 400, 10, 10]), Made("pyrmq", [100, 300, 5, 5])
    report = measured(floor, ours)
    order = [(w.load, w.round, w.peer) for w in report.windows]
    assert order[:4] == [
        *(("1x64", 1, "floor"), ("1x64", 1, "pyrmq")),
        *(("1x64", 2, "floor"), ("1x64", 2, "pyrmq")),
    ]
    found = report.beside("1x64", "pyrmq", "floor")
    assert found is not None
    assert (found.value, found.low, found.high) == (0.625, 0.5, 0.75)
    assert report.environment.cores >= 1
    assert not floor.running
    assert not ours.running


def test_a_peer_that_compiles_is_warmed_up_first() -> None:
    java = Made("apache", [1, 10, 20], compiles=True)
    report = measured(java, loads=TWO[:1])
    assert [seconds for _, seconds in java.asked] == [9, 1, 1]
    assert [window.rate for window in report.windows] == [10, 20]


def test_what_is_missing_or_fails_is_said_and_the_others_go_on() -> None:
    lost = Made("kafka", [], missing="install it so")
    breaks = Made("nats", [50, -1, 7, 8])
    report = measured(Made("pyrmq", [1, 2, 3, 4]), lost, breaks)
    assert [(p.key, p.missing) for p in report.peers][1] == ("kafka", "install it so")
    assert [(f.peer, f.load) for f in report.failures] == [("nats", "1x64")]
    assert [w.rate for w in report.of("64x1", "nats")] == [7, 8]
    assert "install it so" in markdown(report)
    with pytest.raises(BenchError, match="no peer can be measured"):
        measured(Made("kafka", [], missing="x"))


def test_an_interrupted_run_gives_what_it_has() -> None:
    class Interrupted(Made):
        def load(self, serving: Serving, load: Load, seconds: float, warmup: float) -> Measured:
            if len(self.asked) == 3:
                raise KeyboardInterrupt
            return super().load(serving, load, seconds, warmup)

    report = measured(Interrupted("pyrmq", [1, 2, 3]))
    assert report.interrupted
    assert len(report.windows) == 3
    assert "interrupted" in markdown(report)
    assert "The run was interrupted." in texts(parsed(page(report)))


def test_the_page_is_whole_and_asks_for_nothing() -> None:
    report = measured(Made("floor", [200, 400, 10, 10]), Made("pyrmq", [100, -1, 5, 5]))
    text = page(report)
    root = parsed(text)
    assert "\x1b" not in text
    names = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert "svg" in names
    assert not names & {"script", "link", "img", "iframe", "object"}
    for element in root.iter():
        for name, value in element.attrib.items():
            if name in ("href", "src"):
                assert value.startswith("#")
            assert not name.startswith("on")
    assert "url(" not in text
    assert "prefers-color-scheme:dark" in text
    shown = texts(root)
    assert "At a glance" in shown
    assert "1 x 64, 1024 B" in shown
    assert {"processor", "kernel", "disk", "load average at the start"} <= set(shown)
    assert any("pyrmq bench peers" in piece for piece in shown)


def test_markdown_has_a_row_a_peer_and_no_foreign_cells() -> None:
    report = measured(Made("floor", [200, 400, 10, 10]), Made("pyrmq", [100, 300, 5, 5]))
    text = markdown(report)
    assert "| Pyrmq | 200/s | 100 us | 2 ms |  | 4 us | 0.625 (0.5 to 0.75) |" in text
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert all(line.endswith(" |") for line in rows)
    assert "\x1b" not in text


def test_what_makes_figures_doubtful_is_noted() -> None:
    report = measured(Made("pyrmq", [100]), rounds=1, loads=TWO[:1])
    report = replace(report, environment=replace(report.environment, cores=2, load_average=5.7))
    for shown in (markdown(report), page(report)):
        assert "one round only" in shown
        assert "the load average was 5.7 on 2 cores" in shown
    quiet = measured(Made("pyrmq", [100, 100]), loads=TWO[:1])
    quiet = replace(quiet, environment=replace(quiet.environment, cores=2, load_average=1.0))
    assert not [note for note in quiet.notes() if "round" in note or "load average" in note]


def test_figures_that_no_run_has_are_shown_all_the_same() -> None:
    report = measured(Made("floor", [100]), Made("pyrmq", [100]), rounds=1, loads=TWO[:1])
    first, second = report.windows
    many = replace(report.loads[0], name="many", part_of=report.loads[0].name)
    for rate, p99 in ((0.0, 5e-324), (1e308, 1e-308), (-1.0, -1.0)):
        odd = replace(
            report,
            loads=[*report.loads, many],
            windows=[replace(first, rate=rate, p99_us=p99), second, replace(first, load="many")],
        )
        parsed(page(odd))
        markdown(odd)


def test_the_file_can_be_read_again_and_another_is_refused(tmp_path: Path) -> None:
    report = measured(Made("pyrmq", [1, 2, 3, 4]))
    file, html = tmp_path / "peers.json", tmp_path / "peers.html"
    write_report(file, report)
    assert read_report(file) == report
    words = ["bench", "peers", "--from", str(file)]
    done = CliRunner().invoke(main, [*words, "--html", str(html)])
    assert done.exit_code == 0, done.output
    assert html.read_text() == page(report)
    assert CliRunner().invoke(main, words).output == markdown(report)
    file.write_text('{"schema": "pyrmq-bench/1"}')
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 1
    assert "its schema is pyrmq-bench/1; this pyrmq reads pyrmq-bench-peers/1" in done.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--load", "9x9"], "none of 1x1, 1x64"),
        (["--load", "1x1", "--flush", "SYNC_FLUSH"], "none of these loads is one with SYNC_FLUSH"),
        (["--heap", "much"], "write it as 2g"),
        (["--peer", "rabbit"], "is not one of"),
        (["--rounds", "0"], "is not in the range"),
        (["--duration", "5x"], "'5x' is no time: write it as 10s"),
        (["--duration", "50ms"], "50ms is not between 0.1 s and 3600 s"),
        (["--prepare", "11m"], "11m is not between 0 s and 600 s"),
    ],
)
def test_a_command_line_that_cannot_be_is_refused(words: list[str], said: str) -> None:
    done = CliRunner().invoke(main, ["bench", "peers", *words])
    assert done.exit_code == 2
    assert said in done.output


def test_each_peer_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    said = {}
    for peer in peers():
        try:
            peer.require()
        except Unavailable as why:
            said[peer.key] = str(why)
    assert set(said) == set(KEYS) - {"floor", "pyrmq"}
    assert "install a JDK" in said["apache"]
    assert "--kafka-home" in said["kafka"]
    assert "--install" in said["kafka"]
    assert "--nats" in said["nats"]
    (nats_peer,) = peers(["nats"], install=True)
    with pytest.raises(Unavailable, match="go is missing"):
        nats_peer.require()
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(Unavailable, match="install Apache Maven"):
        Apache().require()
    (kafka_peer,) = peers(["kafka"], install=True)
    with pytest.raises(Unavailable, match=r"install Apache Maven.*or give an unpacked release"):
        kafka_peer.require()
    with pytest.raises(Unavailable, match="has no lib/rocketmq-broker"):
        Apache(tmp_path).require()


def test_the_floor_is_started_and_stopped(tmp_path: Path) -> None:
    floor = Floor()
    floor.require()
    with floor.serve(Plan(directory=tmp_path, flush="SYNC_FLUSH")) as serving:
        assert "--sync" in serving.command
        assert Path(f"/proc/{serving.pid}").exists()
        with pytest.raises(Unavailable, match="no queues"):
            floor.load(serving, Load("l", "latency", 1, 1, 16, rate=10.0), 1, 0)
    assert not Path(f"/proc/{serving.pid}").exists()
    assert list(tmp_path.iterdir()) == []


def test_what_was_fetched_is_not_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Maven and Go are asked once, for the right things, and where they are not, what says so."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    log = tmp_path / "log"
    (tmp_path / "bin").mkdir()
    for name, line in (
        ("java", ""),
        ("mvn", f"grep -h artifactId pom.xml >> {log}"),
        ("go", f"echo $2 >> {log}; touch $GOBIN/nats $GOBIN/nats-server"),
    ):
        program = tmp_path / "bin" / name
        program.write_text(f"#!/bin/sh\n{line}\n")
        program.chmod(0o755)
    for _ in range(2):
        for peer in peers(["apache", "kafka", "nats"], install=True):
            peer.require()
    said = log.read_text()
    for part in ("rocketmq-broker", "kafka_2.13", "kafka-tools", "nats-server/v2@", "natscli"):
        assert said.count(part) == 1
    # And without --install from now on.
    for peer in peers(["kafka", "nats"]):
        peer.require()
    said = r"\033[1;31m[ERROR]\033[m no such version\n[ERROR] -> [Help 1]\n"
    (tmp_path / "bin" / "mvn").write_text(f"#!/bin/sh\nprintf '{said}'\nexit 1\n")
    with pytest.raises(Unavailable, match=r"jars \(no such version\): .* --apache-home$"):
        Apache(version="9").require()


def test_a_server_that_ends_says_what_it_said(tmp_path: Path) -> None:
    words = [sys.executable, "-c", "print('no disk'); raise SystemExit(3)"]
    with (
        pytest.raises(BenchError, match="ended: no disk"),
        process(words, "ready", tmp_path / "log"),
    ):
        pass
    with pytest.raises(BenchError, match="ended"), process(words, free_ports(), tmp_path / "log"):
        pass
    with (
        pytest.raises(BenchError, match="cannot be started"),
        process(["/none"], "x", tmp_path / "l"),
    ):
        pass
    with pytest.raises(BenchError, match=r"failed \(3\): no disk"):
        output_of(words, 60)


def test_a_second_ctrl_c_leaves_no_server(tmp_path: Path) -> None:
    """The server interrupts the one that stops it, and does not end by itself."""
    server = (
        "import os, signal, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getppid(), signal.SIGINT))\n"
        "print('ready', flush=True)\n"
        "while True: time.sleep(60)\n"
    )
    script = (
        "import sys\nfrom pathlib import Path\nfrom pyrmq.bench.peers.peer import process\n"
        f"words = [sys.executable, '-c', {server!r}]\n"
        f"log = Path({str(tmp_path / 'log')!r})\n"
        "try:\n"
        "    with process(words, 'ready', log) as (server, _): pass\n"
        "except KeyboardInterrupt: print('interrupted', server.returncode)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "interrupted -9\n", done.stderr


# What clients print


def test_kafka_s_totals_are_read() -> None:
    one = (
        "1000 records sent, 200.0 records/sec (0.20 MB/sec), 1.0 ms avg latency, "
        "2.0 ms max latency.\n"
        "50000 records sent, 38986.0 records/sec (38.07 MB/sec), 401.20 ms avg latency, "
        "502.00 ms max latency, 418 ms 50th, 490 ms 95th, 500 ms 99th, 501 ms 99.9th.\n"
    )
    two = one.replace("418 ms", "300 ms").replace("38986.0", "1000.0")
    found = kafka.read_output([one, two], 9.0, ["x"], 15.0)
    assert (found.rate, found.messages, found.p50_us) == (39986.0, 100_000, 418_000)
    assert (found.p99_us, found.p999_us, found.server_cpu_us) == (500_000, 501_000, 15.0)
    with pytest.raises(BenchError, match="printed no total: no broker"):
        kafka.read_output(["no broker"], 1.0, [])


def test_what_kafka_s_consumer_prints_is_read() -> None:
    text = (
        "SLF4J: no binding\nstart.time, end.time, data.consumed.in.MB, MB.sec, "
        "data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, fetch.time.ms, fetch.MB.sec, "
        "fetch.nMsg.sec\n2026-11-28 03:47:57:521, 2026-11-28 03:48:06:569, 292.9688, 32.3794, "
        "300000, 33156.4987, 5313, 3735, 78.4388, 80321.2851\n"
    )
    found = kafka.read_consumed([text, text], ["x"], 7.0)
    assert (found.messages, found.server_cpu_us, found.p99_us) == (600_000, 7.0, None)
    assert found.rate == pytest.approx(2 * 80321.2851)
    with pytest.raises(BenchError, match="printed no figures: SLF4J"):
        kafka.read_consumed([text, "SLF4J"], [])


def test_the_figures_of_nats_are_read() -> None:
    head = (
        "#RunID,ClientID,MsgCount,MsgBytes,MsgsPerSec,BytesPerSec,DurationSecs,"
        "P50LatencyMicroSecs,P99LatencyMicroSecs,P99.9LatencyMicroSecs"
    )
    table = f"{head}\nx,P0,1,1,1,1,1,765.0,3367.5,19587.9\nx,P1,1,1,1,1,1,821.7,3507.6,19800.3\n"
    many = " NATS JetStream asynchronous publisher aggregated stats: 117,481 msgs/sec ~ 115 MiB/sec"
    found = nats.read_output(many, table, 20_000, ["nats"], (1.0, 1.5))
    assert (found.rate, found.p50_us, found.p99_us) == (117_481, 821.7, 3507.6)
    assert found.server_cpu_us == pytest.approx(25)
    assert found.seconds == pytest.approx(20_000 / 117_481)
    one = "NATS JetStream asynchronous publisher stats: 62,867 msgs/sec ~ 61 MiB/sec"
    assert nats.read_output(one, head + "\nx,P0,1,1,1,1,1,,,\n", 5, []).p50_us is None
    for text, rows in (("no server", table), (one, head)):
        with pytest.raises(BenchError, match="printed no figures"):
            nats.read_output(text, rows, 5, [])


def test_a_result_of_pyrmq_bench_becomes_a_window() -> None:
    found = remoting.measured(result(1000, 500, cpu=4.0, errors=2), ["x"])
    assert (found.rate, found.p99_us, found.server_cpu_us, found.errors) == (1000, 500, 4.0, 2)
    nothing = replace(result(0, errors=1), messages=0)
    with pytest.raises(BenchError, match="not one message got through: busy"):
        remoting.measured(nothing, [])


# What developers have


def test_saved_benchmarks_are_compared() -> None:
    def stats(median: float, iqr: float) -> dict[str, float]:
        return {"median": median, "iqr": iqr}

    def report(**benches: dict[str, float]) -> dict[str, object]:
        return {"benchmarks": [{"fullname": n, "stats": s} for n, s in benches.items()]}

    old = report(a=stats(1e-3, 1e-5), b=stats(1e-6, 5e-7), gone=stats(1, 0), zero=stats(0, 0))
    new = report(a=stats(2e-3, 1e-5), b=stats(1.1e-6, 1e-7))
    lines, alone = saved.compare(old, new)
    assert [(line.name, line.ratio) for line in lines] == [("a", 2), ("b", pytest.approx(1.1))]
    assert lines[0].verdict == "slower, spread 1%"
    assert lines[1].verdict == "within the spread of 50%"
    assert alone == ["gone"]
    assert "only in one of both: gone" in saved.text(lines, alone)


def test_what_is_not_saved_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(saved, "FOLDER", tmp_path / ".benchmarks")
    monkeypatch.setattr(saved, "_git", lambda *words: "" if words[0] == "status" else "c0ffee")
    assert saved.main(["compare", "main"]) == 1
    assert "git switch --detach main && make bench-save" in capsys.readouterr().err
    assert saved.main(["save", str(tmp_path / "none.json")]) == 1
    (tmp_path / "bench.json").write_text('{"benchmarks": []}')
    assert saved.main(["save", str(tmp_path / "bench.json")]) == 0
    assert saved.main(["compare", "main"]) == 0
    assert "no benchmark is in both files" in capsys.readouterr().out


def test_stacks_become_a_flame_graph() -> None:
    perf = (
        "python 12/13 1.0: 1 cycles:\n\t ffff deep<T>::call+0x1f (/x/_native.so)\n"
        "\t fff0 sys_read ([kernel.kallsyms])\n\t 1 main (/usr/bin/python)\n\n"
        "python 12/13 2.0: 1 cycles:\n\t fff0 sys_read ([kernel.kallsyms])\n\t 1 main (/x)\n\n"
    )
    stacks = flame.read_perf(perf)
    assert stacks == {
        ("python", "main", "sys_read_[k]", "deep<T>::call"): 1,
        ("python", "main", "sys_read_[k]"): 1,
    }
    shown = texts(parsed(flame.draw(stacks, "<a> load")))
    assert "<a> load: 2 samples" in shown
    assert "deep<T>::call: 50.0% (1 samples)" in shown
    assert dict(flame.hottest(stacks)) == {"deep<T>::call": 0.5, "sys_read_[k]": 0.5}
    folded = flame.read_folded("a (x.py:1);b::c 3\nno count\na (x.py:1) 1\n")
    assert folded == {("a (x.py:1)", "b::c"): 3, ("a (x.py:1)",): 1}
    with pytest.raises(ValueError, match="no stack"):
        flame.draw(flame.read_folded(""), "t")


def test_texts_of_others_begin_no_markup() -> None:
    nasty = "[x](javascript:1) <img src=x onerror=alert(1)> `code` \\ ``` \x00\x1b[2J\n# head"
    report = measured(Made("pyrmq", [100, 200, 5, 5]), Made("floor", [0, 0], missing=nasty))
    broken = replace(
        report,
        command=["pyrmq", nasty],
        peers=[replace(peer, version=nasty, title=nasty) for peer in report.peers],
        environment=replace(report.environment, cpu=nasty),
    )
    text = markdown(broken)
    code = text.split("\n", 1)[0].split("````")[1]
    rest = text.replace(code, "")
    assert "<img" in code  # where it means nothing
    assert "<img" not in rest
    assert "\\[x](javascript" in rest
    assert "\\`code\\`" in rest
    assert "\n# head" not in text
    for drawn in (page(broken), svg.bars(nasty, nasty, [(nasty, [svg.Bar(nasty, 1, 1, 1)])])):
        assert "\x1b" not in drawn
        assert "<img" not in drawn
        parsed(drawn)
