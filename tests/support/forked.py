"""Processes of `python -m pyrmq …` that start quickly: forked from one that has imported it.

Python needs half a second of CPU to import a broker, and the tests start more than a thousand of
them. `popen` and `run` do what `subprocess.Popen` and `subprocess.run` do, for the same command:
a process with a pid of its own, its own file descriptors, environment and exit code, which may be
killed. It is a child of the server below, which is a child of this process (one for each worker).

What an environment says to the interpreter or to the loader (PYTHON…, LD_PRELOAD, a locale) cannot
be given to a process that runs already: such a command is started anew. So is any other program,
and everything in the long form or with PYRMQ_FORKED=0.

    with popen([sys.executable, "-m", "pyrmq", "namesrv"], stdout=PIPE) as process: ...
"""

from __future__ import annotations

import atexit
import inspect
import json
import os
import resource
import select
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.thorough import THOROUGH

ROOT = Path(__file__).parents[2]
START = (sys.executable, "-m")
MODULES = ("pyrmq", "tests.system.crash.dying_server", "tests.system.interop.python_driver")
"""What can be run in a fork."""
AT_START = ("PYTHON", "LD_", "MALLOC_", "GLIBC_", "LC_", "LANG", "TZ", "ASAN", "TSAN")
"""Beginnings of the names of variables that count when a process starts."""
UNBUFFERED = "PYTHONUNBUFFERED"
STATUS = struct.Struct("=i")


def popen(command: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
    """`subprocess.Popen(command, **options)`."""
    if _can_fork(command, options):
        return _Forked(command, **options)
    return subprocess.Popen(command, **options)


def run(
    command: Sequence[str],
    *,
    input: Any = None,
    capture_output: bool = False,
    timeout: float | None = None,
    check: bool = False,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """`subprocess.run(command, …)`."""
    if input is not None:
        options["stdin"] = subprocess.PIPE
    if capture_output:
        options["stdout"] = options["stderr"] = subprocess.PIPE
    with popen(command, **options) as process:
        try:
            out, err = process.communicate(input, timeout=timeout)
        except BaseException:
            process.kill()
            process.wait()
            raise
    assert process.returncode is not None
    done = subprocess.CompletedProcess(process.args, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


def _can_fork(command: Sequence[str], options: Mapping[str, Any]) -> bool:
    if os.environ.get("PYRMQ_FORKED") == "0" or THOROUGH or not hasattr(os, "pidfd_open"):
        return False
    if tuple(command[:2]) != START or command[2] not in MODULES:
        return False
    if options.get("preexec_fn") or options.get("pass_fds"):
        return False
    env = options.get("env")
    return env is None or _at_start(env) == _at_start(os.environ)


def _at_start(env: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in env.items() if k.startswith(AT_START) and k != UNBUFFERED}


class _Server:
    """The process to fork from; started when the first one is wanted."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._owner = 0

    def fork(self, job: dict[str, Any], descriptors: Sequence[int]) -> int:
        """The pid of a process that does it."""
        with self._lock:
            if self._socket is None or self._owner != os.getpid():
                self._start()
            assert self._socket is not None
            socket.send_fds(self._socket, [json.dumps(job).encode()], list(descriptors))
            answer = self._socket.recv(64)
        if not answer:
            raise OSError("the process to fork from has gone")
        return int(answer)

    def _start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.fork_server", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                cwd=ROOT,
            )
        self._socket, self._owner = ours, os.getpid()
        atexit.register(self._stop, self._owner)

    def _stop(self, owner: int) -> None:
        if owner == os.getpid() and self._socket is not None and self._process is not None:
            self._socket.close()
            self._process.wait()


_server = _Server()


class _Forked(subprocess.Popen[Any]):
    """Popen makes pipes and talks through them. Where it would start a process, the server does;
    where it would ask the kernel how a child ended, the server has said so through a pipe."""

    def _execute_child(self, *args: Any) -> None:
        asked = inspect.signature(subprocess.Popen._execute_child).bind(self, *args).arguments  # type: ignore[attr-defined]
        status, say = os.pipe()
        streams = [asked["p2cread"], asked["c2pwrite"], asked["errwrite"]]
        streams = [own if fd == -1 else fd for own, fd in enumerate(streams)]
        env = asked["env"]
        job = {
            "args": list(asked["args"])[2:],
            "cwd": str(asked["cwd"] or os.getcwd()),
            "env": dict(os.environ if env is None else env),
            "group": asked["process_group"],
            "files": resource.getrlimit(resource.RLIMIT_NOFILE),
        }
        try:
            self.pid = _server.fork(job, [*streams, say])
        except BaseException:
            os.close(status)
            raise
        finally:
            os.close(say)
            self._close_pipe_fds(*(asked[name] for name in _PIPES))  # type: ignore[attr-defined]
        self._status: int | None = status
        self._child_created = True

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        """As waitpid: (0, 0) if it runs on and WNOHANG was asked for."""
        if self._status is None:
            return self.pid, 0
        if wait_flags & os.WNOHANG and not select.select([self._status], [], [], 0)[0]:
            return 0, 0
        said = os.read(self._status, STATUS.size)
        os.close(self._status)
        self._status = None
        if not said:
            raise OSError(f"nobody knows how process {self.pid} ended")
        return self.pid, STATUS.unpack(said)[0]

    def _internal_poll(self, *args: Any, **options: Any) -> int | None:
        if self.returncode is None and self._waitpid_lock.acquire(False):  # type: ignore[attr-defined]
            try:
                if self.returncode is None:
                    pid, status = self._try_wait(os.WNOHANG)
                    if pid:
                        self._handle_exitstatus(status)  # type: ignore[attr-defined]
            finally:
                self._waitpid_lock.release()  # type: ignore[attr-defined]
        return self.returncode


_PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
