"""Spark's standalone cluster on this machine: a master and two workers, each a process."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from tests.support.waiting import eventually

from .cluster import spark_home

MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
START = 120.0
"""Seconds that a process has until it says where it listens."""


class Standalone:
    """The cluster, from `with` to its end. `hidden` is a folder that the second worker, and what it
    starts, sees empty. `memory`: of a worker."""

    def __init__(self, home: Path, hidden: Path | None = None, memory: str = "1g") -> None:
        self.home = spark_home(home)
        self._memory = memory
        self.hidden = hidden
        self.url = ""
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Standalone:
        try:
            self.url = self._start("master", MASTER, [], r"Starting Spark master at (spark://\S+)")
            for number in (0, 1):
                options = ["--cores", "1", "--memory", self._memory]
                options += ["--work-dir", str(self.work(number)), self.url]
                name = f"worker{number}"
                # Of its own: Spark starts no second task of a split on the host of the first.
                host = f"127.0.0.{number + 1}"
                self._start(name, WORKER, options, "Successfully registered", host, number == 1)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._stop()

    def work(self, worker: int) -> Path:
        """Where this worker keeps the folders of its executors."""
        return self.home / f"work{worker}"

    def executors(self) -> list[int]:
        """The processes of executors that run now: children of the workers."""
        workers = {process.pid for process in self._processes[1:]}
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has just ended
                parent = re.search(r"^PPid:\t(\d+)", (folder / "status").read_text(), re.MULTILINE)
                executes = b"ExecutorBackend" in (folder / "cmdline").read_bytes()
                if executes and parent is not None and int(parent[1]) in workers:
                    found.append(int(folder.name))
        return sorted(found)

    def said(self) -> str:
        """What the executors have written to their logs, those that ended too."""
        logs = self.home.glob("work*/*/*/stderr")
        return "".join(log.read_text(errors="replace") for log in sorted(logs))

    def _start(
        self,
        name: str,
        kind: str,
        options: list[str],
        said: str,
        host: str = "127.0.0.1",
        blind: bool = False,
    ) -> str:
        command = [str(self.home / "bin" / "spark-class"), kind, "--host", host]
        command += ["--port", "0", "--webui-port", "0", *options]
        if blind and self.hidden is not None:
            script = 'mount -t tmpfs none "$0" && exec "$@"'
            command = ["unshare", "--mount", "sh", "-c", script, str(self.hidden), *command]
        log = self.home / f"{name}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=self._environment(),
                start_new_session=True,
            )
        self._processes.append(process)

        def found() -> re.Match[str] | None:
            text = log.read_text(errors="replace")
            assert process.poll() is None, text[-4000:]
            return re.search(said, text)

        match = eventually(found, f"{name} starts", START)
        assert match is not None
        return match[match.lastindex or 0]

    def _environment(self) -> Mapping[str, str]:
        return {
            **{key: value for key, value in os.environ.items() if not key.startswith("PYSPARK")},
            "SPARK_HOME": str(self.home),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }

    def _stop(self) -> None:
        for process in reversed(self._processes):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def can_hide() -> bool:
    """Whether this user may mount a file system for some processes only."""
    if shutil.which("unshare") is None:
        return False
    command = ["unshare", "--mount", "sh", "-c", "mount -t tmpfs none /mnt"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
