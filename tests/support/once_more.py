"""Runs what failed once more, alone, where PYRMQ_ONCE_MORE=1 (as in `.ci/run`).

A test that fails beside others and passes alone depends on the machine. It is named under FLAKY, is
mended before anything else, and does not refuse a change. A test that fails again refuses it. So do
an error while tests are collected, the crash of a worker, an interruption, and more failures than
MOST: then nothing is run again.

The repetitions run when all workers have ended, each in a process of its own, so that the closing
line is that of the whole run.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

import pytest
from _pytest.terminal import TerminalReporter

VARIABLE = "PYRMQ_ONCE_MORE"
MOST = 20
"""More failures than that are not chance."""
PHASES = ("setup", "call", "teardown")
"""xdist reports the crash of a worker as a failure in another phase."""
FAILED = ("failed", "error")


def register(config: pytest.Config) -> None:
    """For the process that prints; workers of pytest-xdist only run tests."""
    if os.environ.get(VARIABLE) == "1" and not hasattr(config, "workerinput"):
        config.pluginmanager.register(OnceMore(config), "pyrmq-once-more")


class OnceMore:
    """The plugin. `flaky` are the reports of tests that failed first and passed alone."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self.flaky: list[pytest.TestReport] = []

    @pytest.hookimpl(trylast=True)  # when pytest-xdist has ended its workers
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if exitstatus != pytest.ExitCode.TESTS_FAILED:
            return
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        assert isinstance(terminal, TerminalReporter)
        reports = [report for kind in FAILED for report in terminal.stats.get(kind, ())]
        tests = list(dict.fromkeys(report.nodeid for report in reports))
        if not reports or not all(_may_be_chance(report) for report in reports):
            return
        if len(tests) > MOST:
            terminal.write_line(f"{len(tests)} tests failed: more than {MOST} are not run again")
            return
        terminal.section(f"{len(tests)} failed: once more, alone")
        passed = {test for test in tests if self._passes(test, terminal)}
        self._say_flaky(terminal, passed)
        if passed == set(tests):
            session.exitstatus = pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        if not self.flaky:
            return
        terminalreporter.section("FLAKY")
        for report in self.flaky:
            terminalreporter.write_line(f"FLAKY {report.nodeid} failed ({report.when}):")
            terminalreporter.write_line(report.longreprtext)
            for title, text in report.sections:
                terminalreporter.write_line(f"{title}:\n{text}")
        for test in dict.fromkeys(report.nodeid for report in self.flaky):
            terminalreporter.write_line(f"FLAKY {test}: passed alone, mend it first")

    def _passes(self, test: str, terminal: TerminalReporter) -> bool:
        """Whether it passes in a process of its own; a test that is skipped there does not."""
        environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
        with tempfile.TemporaryDirectory() as folder:
            result = Path(folder) / "result.xml"
            command = [sys.executable, "-m", "pytest", "-q", "-n0", f"--junit-xml={result}", test]
            with subprocess.Popen(
                command,
                cwd=self._config.rootpath,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                errors="backslashreplace",
            ) as child:
                assert child.stdout is not None
                for line in child.stdout:
                    terminal.write_line(line.rstrip("\n"))
            return child.returncode == 0 and _passed_once(result)

    def _say_flaky(self, terminal: TerminalReporter, passed: set[str]) -> None:
        for kind in FAILED:
            reports = terminal.stats.pop(kind, [])
            self.flaky += [report for report in reports if report.nodeid in passed]
            if still := [report for report in reports if report.nodeid not in passed]:
                terminal.stats[kind] = still
        if self.flaky:
            terminal.stats["flaky"] = list(self.flaky)


def _may_be_chance(report: object) -> bool:
    return isinstance(report, pytest.TestReport) and report.when in PHASES


def _passed_once(result: Path) -> bool:
    suite = ElementTree.parse(result).getroot().find("testsuite")
    counts = [] if suite is None else [suite.get(n) for n in ("tests", "skipped")]
    return counts == ["1", "0"]
