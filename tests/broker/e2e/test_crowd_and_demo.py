"""Two thousand connections that say nothing, and the demonstration."""

from __future__ import annotations

import resource
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.client import Client
from tests.support.command import environment
from tests.support.server import ServerProcess
from tests.support.waiting import eventually

IDLE = 2000


def test_idle_connections_do_not_disturb_a_send(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = IDLE + 500
    if hard != resource.RLIM_INFINITY and hard < needed:
        pytest.skip(f"RLIMIT_NOFILE is at most {hard} here, {needed} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    idle: list[socket.socket] = []
    try:
        with ServerProcess(tmp_path / "store") as server, Client(server.broker) as busy:
            busy.send("Busy")
            before = server.status_kib("RssAnon")
            for _ in range(IDLE):
                idle.append(socket.create_connection(server.broker, 5))
            with Client(server.broker) as late:
                assert late.send("Busy").code == 0, "accepted behind all the others"
            assert server.open_files() >= IDLE
            for _ in range(200):
                assert busy.send("Busy").code == 0
            grown = server.status_kib("RssAnon") - before
            assert grown < 20 * IDLE, f"{grown / IDLE:.1f} KiB per idle connection"
            for sock in idle:
                sock.close()
            what = "the descriptors of closed connections are closed"
            eventually(server.open_files, what, until=lambda found: found <= 200)
            assert busy.send("Busy").code == 0
    finally:
        for sock in idle:
            sock.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_demo() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "pyrmq.demo", "--messages", "60"],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment(),
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "nothing is lost" in result.stdout
    assert "Traceback" not in result.stderr


FAILING = """
import sys, trio
from pyrmq import demo, demo_ha

class Broken(Exception):
    pass

async def fail(*args):
    raise Broken

started = []
original = demo.subprocess.Popen

def popen(*args, **options):
    process = original(*args, **options)
    started.append(process)
    return process

demo.subprocess.Popen = popen
if sys.argv[1] == "demo":
    demo._produce = fail
    sys.argv[1:] = []
    run = demo.main
elif sys.argv[1] == "demo_ha":
    demo_ha._in_sync = fail
    run = lambda: trio.run(demo_ha.run, 1)
else:  # its slave does not start
    demo_ha._BROKER = demo_ha._BROKER.replace("brokerId={number}", "brokerId=0")
    run = lambda: trio.run(demo_ha.run, 1)
try:
    run()
except BaseException as error:
    print(type(error).__name__)
print([process.poll() is not None for process in started])
"""


@pytest.mark.parametrize(
    ("which", "servers"), [("demo", 1), ("demo_ha", 3), ("a server that does not start", 3)]
)
def test_a_demo_that_fails_leaves_no_server_behind(which: str, servers: int) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", FAILING, which],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment(),
        check=False,
    )
    assert ran.stdout.splitlines()[-1] == str([True] * servers), ran.stdout + ran.stderr
