"""What belongs to all tests: the short and the long form, Hypothesis's seeds, and which tests
pytest-xdist keeps together in one worker."""

from __future__ import annotations

import gc
import logging
import os
import signal
from typing import Any

import hypothesis
import pytest

from tests.support import once_more, sharing, thorough

OURS = logging.getLogger("pyrmq")
# A shell without job control has what it starts in the background ignore Ctrl-C, and so would what
# the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Commands remember no brokers of other tests, nor in the home of whoever runs them.
os.environ["PYRMQ_STATE"] = ""
os.environ.pop("PYRMQ_EXPECT", None)

# Machines differ in speed: a slow example is no failure.
hypothesis.settings.register_profile("fixed", derandomize=True, deadline=None, database=None)
hypothesis.settings.register_profile("random", deadline=None, database=None, print_blob=True)
hypothesis.settings.load_profile("random" if thorough.THOROUGH else "fixed")


def pytest_report_header() -> str:
    form = "long form (PYRMQ_THOROUGH=1)" if thorough.THOROUGH else "short form"
    return f"pyrmq: {form}, PYRMQ_SEED={thorough.seed()}"


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if thorough.THOROUGH and getattr(config.option, "hypothesis_seed", None) is None:
        config.option.hypothesis_seed = str(thorough.seed())
    once_more.register(config)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Any:
    """All that is made here stays to the end: looking through it again and again finds nothing, and
    takes each worker more than a second."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        call = getattr(item, "callspec", None)
        if call is not None and call.params.get("seed") == thorough.seed():
            item.add_marker(pytest.mark.random)
    if not thorough.THOROUGH:
        left_out = [item for item in items if item.get_closest_marker("thorough")]
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if not item.get_closest_marker("thorough")]
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: sharing.rank(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """`--dist loadfile`, but files that share something costly stay together and the longest come
    first."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return sharing.group(nodeid)

    config.option.loadscopereorder = False  # the order of the collection: see `rank`
    return Scheduling(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Any:
    """A server in this process sets the level of its loggers: the next test has the usual one."""
    yield
    if OURS.level != logging.NOTSET:
        OURS.setLevel(logging.NOTSET)


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable(report: object) -> Any:
    """Tests of foreign bytes log lone surrogates, which a worker cannot send to the one process
    that prints."""
    data = yield
    return _printable(data) if "PYTEST_XDIST_WORKER" in os.environ else data


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_printable(key): _printable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_printable, value))
    return value
