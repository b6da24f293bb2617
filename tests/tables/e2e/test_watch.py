"""`table watch`: many topics by one process; one that fails does not stop the others."""

from __future__ import annotations

import math
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from pyrmq.tables.catalog import open_catalog
from spark_ext.jobs import table_watch
from spark_ext.jobs.table_watch import Service, Turns
from tests.segments.making import put, small
from tests.support.waiting import eventually

FILE = """
every = "{every}"
[all]
catalog = "{root}/lake"
store = ["{root}/broker-a"]
{tables}
"""


def _fill(root: Path, *topics: str, count: int = 20) -> None:
    with small(root / "broker-a") as store:
        for number in range(count):
            for topic in topics:
                put(store, topic, number % 2, f"{topic} {number}".encode())


def _file(root: Path, *topics: str, every: str = "0.01s", more: str = "") -> Path:
    tables = "".join(f'[[tables]]\ntopic = "{t}"\ntable = "mq.{t}"\n' for t in topics)
    path = root / "tables.toml"
    path.write_text(FILE.format(root=root, every=every, tables=tables) + more)
    return path


def _rows(root: Path, topic: str) -> int:
    table = open_catalog(str(root / "lake")).load(f"mq.{topic}")
    return len(table.scan(selected_fields=("queueOffset",)).to_arrow())


def _turn(service: Service, topic: str) -> Any:
    state = next(one for one in service._states if one.watched.topic == topic)
    service.turn(state)
    return state


def test_each_topic_is_written_and_one_that_fails_comes_later(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _fill(tmp_path, "orders", "payments")
    with Turns() as turns:
        assert isinstance(turns, Turns)
        service = Service(_file(tmp_path, "orders", "missing", "payments"), turns)
        good = _turn(service, "orders")
        bad = _turn(service, "missing")
        _turn(service, "payments")
        assert (_rows(tmp_path, "orders"), _rows(tmp_path, "payments")) == (20, 20)
        assert (good.figures.messages, good.figures.failing) == (20, False)
        assert (bad.figures.failures, bad.figures.failing) == (1, True)
        now = time.monotonic()
        assert good.due < now + 1 < now + 5 < bad.due
        first = bad.due - now
        assert _turn(service, "missing").due - time.monotonic() > 1.5 * first
        out, err = capsys.readouterr()
        assert "orders → mq.orders: 20 messages" in out
        assert "missing → mq.missing: topic 'missing' is not in the store" in err
        # It recovers by itself.
        _fill(tmp_path, "missing")
        assert not _turn(service, "missing").figures.failing
        assert _rows(tmp_path, "missing") == 20


def test_a_backlog_is_written_in_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn that is over commits what it has read; the next one goes on."""
    from pyrmq.tables import source

    monkeypatch.setattr(table_watch, "TURN", 0.0)
    monkeypatch.setattr(source.StoreSource.__init__, "__kwdefaults__", {
        **source.StoreSource.__init__.__kwdefaults__, "step_bytes": 1000,
    })  # fmt: skip
    _fill(tmp_path, "orders", count=100)
    with Turns() as turns:
        assert isinstance(turns, Turns)
        service = Service(_file(tmp_path, "orders", every="1h"), turns)
        state = _turn(service, "orders")
        assert 0 < state.figures.messages < 100
        assert state.due <= time.monotonic()
        while state.figures.messages < 100:
            before = state.figures.messages
            _turn(service, "orders")
            assert state.figures.messages > before
        assert _rows(tmp_path, "orders") == 100


def test_upkeep_compacts_and_expires(tmp_path: Path) -> None:
    more = '[upkeep]\nevery = "1h"\nolder-than = "0.001s"\nkeep = 1\n'
    with Turns() as turns:
        assert isinstance(turns, Turns)
        _fill(tmp_path, "orders")
        service = Service(_file(tmp_path, "orders", more=more), turns)
        for _ in range(6):
            _fill(tmp_path, "orders", count=4)
            _turn(service, "orders")
        state = _turn(service, "orders")
        catalog = open_catalog(str(tmp_path / "lake"))
        assert len(list(catalog.load("mq.orders").scan().plan_files())) == 6
        state.upkeep_due = 0.0
        _turn(service, "orders")
        table = catalog.load("mq.orders")
        assert len(list(table.scan().plan_files())) == 1
        assert len(table.snapshots()) == 2
        assert state.upkeep_due > time.monotonic() + 3000
        assert _rows(tmp_path, "orders") == 44


def test_dead_bodies_are_said_and_their_table_is_kept_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "object", "properties": {"id": {"type": "integer"}}}')
    more = (
        f'body = "json"\nbody-schema = "{schema}"\non-error = "dlq"\n'
        '[upkeep]\nevery = "1h"\nolder-than = "0.001s"\nkeep = 1\n'
    )
    with Turns() as turns:
        assert isinstance(turns, Turns)
        _fill(tmp_path, "orders")
        service = Service(_file(tmp_path, "orders", more=more), turns)
        for _ in range(6):
            _turn(service, "orders").upkeep_due = math.inf
            _fill(tmp_path, "orders", count=4)
        catalog = open_catalog(str(tmp_path / "lake"))
        assert len(list(catalog.load("mq.orders_dlq").scan().plan_files())) == 6
        _turn(service, "orders").upkeep_due = 0.0
        figures = _turn(service, "orders").figures
        assert (figures.messages, figures.unfit) == (0, 44)
        assert len(list(catalog.load("mq.orders_dlq").scan().plan_files())) == 1
        assert _rows(tmp_path, "orders_dlq") == 44
        assert _rows(tmp_path, "orders") == 0
    said = capsys.readouterr().out
    assert "mq.orders: 0 messages" in said
    assert "1 commit; 20 bodies in mq.orders_dlq" in said
    assert "mq.orders_dlq: 7 files replaced by 1" in said


def test_the_file_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(table_watch, "LOOK", 0.0)
    _fill(tmp_path, "orders", "payments")
    with Turns() as turns:
        assert isinstance(turns, Turns)
        service = Service(_file(tmp_path, "orders"), turns)
        _turn(service, "orders")
        _file(tmp_path, "orders", "payments")
        service._reload()
        assert [one.watched.topic for one in service._states] == ["orders", "payments"]
        assert service._states[0].figures.messages == 20
        (tmp_path / "tables.toml").write_text("[[tables]]")
        service._reload()
        assert len(service._states) == 2
        (tmp_path / "tables.toml").unlink()
        service._reload()
        assert len(service._states) == 2
    assert capsys.readouterr().err.count("the tables of before are watched on") == 2


def test_as_a_process(tmp_path: Path) -> None:
    """Writes, serves figures, and ends on SIGTERM with code 0."""
    _fill(tmp_path, "orders")
    command = [sys.executable, "-m", "spark_ext.jobs.table", "watch"]
    command += [str(_file(tmp_path, "orders", "missing")), "--metrics", "127.0.0.1:0"]
    log = tmp_path / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        eventually(lambda: "20 messages" in log.read_text(), "a commit", 60)
        address = next(
            line.rpartition(" ")[2] for line in log.read_text().splitlines() if "/metrics" in line
        )
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=20) as answer:
            page = answer.read().decode()
        assert 'pyrmq_table_messages_total{service="table-watch",table="mq.orders"' in page
        assert "process_resident_memory_bytes" in page
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(60)
    assert code == 0, log.read_text()
    assert log.read_text().rstrip().endswith("stopped")
    assert _rows(tmp_path, "orders") == 20


def test_an_address_that_is_taken_is_an_error_at_the_start(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from pyrmq.errors import ConfigError

    _fill(tmp_path, "orders")
    for address in ("nonsense", "256.1.1.1:1"):
        done = CliRunner().invoke(
            table_watch.command, [str(_file(tmp_path, "orders")), "--metrics", address]
        )
        assert isinstance(done.exception, ConfigError)
        assert "--metrics" in str(done.exception)


def test_check_only_reads_the_file(tmp_path: Path) -> None:
    from click.testing import CliRunner

    file = _file(tmp_path, "orders", "payments")
    done = CliRunner().invoke(table_watch.command, [str(file), "--check"])
    assert (done.exit_code, done.output) == (0, f"{file} is fine: 2 tables\n")
    assert not (tmp_path / "lake").exists()
