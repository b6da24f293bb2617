"""Levels of all loggers and of some, as they are set and as they were."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace

import pytest

from pyrmq.broker.config.broker_config import BrokerConfig, LiveConfig
from pyrmq.config.log_keys import follow_levels
from pyrmq.engine import set_log_level
from pyrmq.errors import ConfigError
from pyrmq.logs import levels
from pyrmq.logs.levels import LEVELS_OF_PROCESS, Levels, named_levels
from pyrmq.namesrv.config import NamesrvConfig

NAMES = ("pyrmq", "pyrmq.net", "pyrmq.engine", "pyrmq.engine.store", "h11")


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What the engine is told; loggers are as before afterwards."""
    before = {name: logging.getLogger(name).level for name in NAMES}
    told: list[str] = []
    monkeypatch.setattr(levels, "set_log_level", told.append)
    monkeypatch.setattr(LEVELS_OF_PROCESS, "_named", set())
    yield told
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)
    set_log_level("warning")


def set_levels() -> dict[str, str]:
    return {
        name: logging.getLevelName(logging.getLogger(name).level)
        for name in NAMES
        if logging.getLogger(name).level
    }


def test_named_loggers_differ_until_they_are_named_no_more(engine: list[str]) -> None:
    made = Levels()
    made.apply("warning", {"pyrmq.net": "debug", "pyrmq.engine.store": "info", "h11": "error"})
    assert set_levels() == {
        "pyrmq": "WARNING",
        "pyrmq.net": "DEBUG",
        "pyrmq.engine.store": "INFO",
        "h11": "ERROR",
    }
    made.apply("error", {"pyrmq.engine": "warning"})
    assert set_levels() == {"pyrmq": "ERROR", "pyrmq.engine": "WARNING"}
    assert engine == ["info", "warning"]


def test_debug_and_back(engine: list[str]) -> None:
    made = Levels()
    made.apply("error", {"pyrmq.net": "info"})
    made.debug()
    assert set_levels() == {"pyrmq": "DEBUG"}
    made.back()
    assert set_levels() == {"pyrmq": "ERROR", "pyrmq.net": "INFO"}
    assert engine == ["error", "debug", "error"]


def test_an_update_of_a_server_counts_at_once() -> None:
    live = LiveConfig(BrokerConfig())
    root = logging.getLogger().level
    before = set_levels()
    follow_levels(live)
    live.change(replace(live.now, broker_permission=4))
    assert set_levels() == before, "who embeds a broker has levels of his own"
    live.change(replace(live.now, log_level="error", log_levels="pyrmq.net=debug"))
    assert set_levels() == {"pyrmq": "ERROR", "pyrmq.net": "DEBUG"}
    assert logging.getLogger().level == root


MANY = [";".join(f"a{n}=info" for n in range(101))]


@pytest.mark.parametrize(
    "text",
    ["pyrmq.net", "pyrmq.net=loud", "=info", "a b=info", "a\nb=info", "x" * 101 + "=info", *MANY],
)
def test_what_is_no_list_of_levels_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"LOGGER=LEVEL expected|at most 100 loggers"):
        named_levels(text)
    for config in (BrokerConfig, NamesrvConfig):
        with pytest.raises(ConfigError, match=r"^logLevels="):
            config(log_levels=text)


def test_a_list_of_levels() -> None:
    assert named_levels(" pyrmq.net = debug ;h11=error, ") == {"pyrmq.net": "debug", "h11": "error"}
