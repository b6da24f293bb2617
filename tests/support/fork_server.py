"""`python -m tests.support.fork_server SOCKET`: has imported pyrmq, and forks when it is told to.

See forked.py. It has one thread and nothing open but SOCKET, which brings what to run and the file
descriptors to run it with. A fork leaves `serve` and does its job where the interpreter would have
run a module: it ends as any other process does.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import resource
import runpy
import select
import signal
import socket
import sys
import threading
from typing import Any

import pyrmq.admin.api
import pyrmq.cli
import pyrmq.client
import pyrmq.logs.setup
import pyrmq.server  # noqa: F401
from tests.support.forked import STATUS, UNBUFFERED

Job = dict[str, Any]


def serve(control: socket.socket) -> Job | None:
    """Forks until the other end of the socket is closed: then None. In a fork its job."""
    ends: dict[int, tuple[int, int]] = {}
    """By the descriptor of a process that runs: its pid, and where to say how it ended."""
    gc.collect()
    gc.freeze()
    while True:
        for ready in select.select([control, *ends], [], [])[0]:
            if ready is not control:
                _tell(ready, *ends.pop(ready))
                continue
            data, descriptors, *_ = socket.recv_fds(control, 1 << 20, 4)
            if not data:
                return None
            *streams, say = descriptors
            job = {**json.loads(data), "streams": streams}
            pid = os.fork()
            if not pid:
                control.close()
                for process, (_, other) in ends.items():
                    os.close(process)
                    os.close(other)
                os.close(say)
                return job
            ends[os.pidfd_open(pid)] = pid, say
            if job["group"] >= 0:
                os.setpgid(pid, job["group"])
            for stream in streams:
                os.close(stream)
            control.send(str(pid).encode())


def _tell(process: int, pid: int, say: int) -> None:
    """Before its pid may be another's: whoever asked may be about to kill it."""
    ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert ended is not None
    if ended.si_code == os.CLD_EXITED:
        status = ended.si_status << 8
    else:
        status = ended.si_status | (0x80 if ended.si_code == os.CLD_DUMPED else 0)
    with contextlib.suppress(BrokenPipeError):  # nobody wants to know
        os.write(say, STATUS.pack(status))
    os.close(say)
    os.close(process)
    os.waitpid(pid, 0)


def do(job: Job) -> None:
    """Becomes what `python -m` with these words would be."""
    for number, stream in enumerate(job["streams"]):
        os.dup2(stream, number)
    for stream in job["streams"]:
        if stream > 2:
            os.close(stream)
    resource.setrlimit(resource.RLIMIT_NOFILE, job["files"])
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["env"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _open_streams(unbuffered=bool(job["env"].get(UNBUFFERED)))
    sys.path[0] = job["cwd"]
    module, *words = job["args"]
    sys.argv = [module, *words]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _open_streams(unbuffered: bool) -> None:
    """As Python makes them when it starts: what there was is of other files."""
    encoding = sys.stdout.encoding
    raw: list[Any] = [io.FileIO(fd, "wb" if fd else "rb", closefd=False) for fd in range(3)]
    into = io.BufferedReader(raw[0])
    out, err = raw[1:] if unbuffered else map(io.BufferedWriter, raw[1:])
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(into, encoding, sys.stdin.errors)
    options: Any = {"encoding": encoding, "write_through": unbuffered}
    options["line_buffering"] = os.isatty(1)
    sys.stdout = sys.__stdout__ = io.TextIOWrapper(out, errors=sys.stdout.errors, **options)
    options["line_buffering"] = True
    sys.stderr = sys.__stderr__ = io.TextIOWrapper(err, errors=sys.stderr.errors, **options)


if __name__ == "__main__":
    assert threading.active_count() == 1 == len(os.listdir("/proc/self/task"))
    job = serve(socket.socket(fileno=int(sys.argv[1])))
    if job is not None:
        do(job)
