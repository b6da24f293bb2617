"""Which files there are, and that a program with a server inside keeps its own logging."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from pyrmq.broker.config.broker_config import BrokerConfig
from pyrmq.errors import ConfigError
from pyrmq.logs.setup import ROCKETMQ_FILES, Logs, LogSettings, outlets_of

ROOT = Path(__file__).resolve().parents[3]


def test_the_files_of_rocketmq(tmp_path: Path) -> None:
    found = outlets_of(LogSettings(folder=str(tmp_path)), "")
    assert found["pyrmq.engine"].path == tmp_path / "store.log"
    assert found["pyrmq.engine"] is found["pyrmq.broker.delay"], "one file is rotated by one"
    assert found["pyrmq.net"].path == tmp_path / "remoting.log"
    assert found["pyrmq.namesrv"].path == tmp_path / "namesrv.log"
    assert found[""].path == tmp_path / "broker.log"
    assert found[""].old.name(3) == tmp_path / "otherdays" / "broker.3.log"
    of_namesrv = outlets_of(LogSettings(folder=str(tmp_path)), "", is_namesrv=True)
    assert of_namesrv[""] is of_namesrv["pyrmq.namesrv"]


def test_the_loggers_that_have_files_are_there() -> None:
    for name in {*ROCKETMQ_FILES} - {"pyrmq.engine", "pyrmq.audit"}:
        path = ROOT / name.replace(".", "/")
        assert path.is_dir() or path.with_suffix(".py").is_file(), name


def test_brokers_of_one_configuration_have_files_of_their_own(tmp_path: Path) -> None:
    file = LogSettings(file=str(tmp_path / "b.log"))
    assert outlets_of(file, "broker-b")[""].path == tmp_path / "b-broker-b.log"
    assert outlets_of(file, "")[""].path == tmp_path / "b.log"
    folder = LogSettings(folder=str(tmp_path))
    assert outlets_of(folder, "broker-b")[""].path == tmp_path / "broker-b" / "broker.log"


def test_keys_that_exclude_each_other() -> None:
    with pytest.raises(ConfigError, match="logFile and logFolder exclude each other"):
        BrokerConfig(log_file="a", log_folder="b")


def test_keys_become_settings() -> None:
    values = {
        "logLevel": "debug",
        "logLevels": "pyrmq.net=error",
        "logFormat": "json",
        "logFile": "~/b.log",
        "logMaxFileSize": "5000",
        "logMaxFiles": "2",
        "logRotateDaily": "true",
        "logFoldSeconds": "0",
        "logCompress": "true",
    }
    settings = BrokerConfig.from_properties(values).log_settings
    named = {"pyrmq.net": "error"}
    assert settings == LogSettings("debug", named, "json", "~/b.log", "", 5000, 2, True, 0, True)
    assert outlets_of(settings, "")[""].path == Path.home() / "b.log"


def test_an_embedded_server_leaves_the_root_logger_alone(tmp_path: Path) -> None:
    root, top = logging.getLogger(), logging.getLogger("pyrmq")
    before = root.level, list(root.handlers), top.level
    logs = Logs.early(top)
    try:
        logs.open(LogSettings(file=str(tmp_path / "a.log")))
        top.info("hello")
        assert (root.level, root.handlers) == before[:2]
    finally:
        logs.close()
        top.setLevel(before[2])
    assert (tmp_path / "a.log").read_text().endswith("INFO pyrmq: hello\n")
    assert logs.writer not in top.handlers
