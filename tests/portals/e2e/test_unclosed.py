"""Clients that nobody closes: a ResourceWarning, and what the end of the program does for them."""

from __future__ import annotations

import asyncio
import gc
import socket
import subprocess
import sys
import warnings
from typing import Any

import pytest

from pyrmq import aio, sync
from pyrmq.portal.shared import SHARED
from pyrmq.server import Running

PROGRAM = """
import logging, sys
from pyrmq.sync import Message, Producer
logging.basicConfig()
producer = Producer("exits", namesrv=sys.argv[1], auto_batch=True, send_timeout=60, **{options})
producer.__enter__()
if {ready}:
    producer.queues("Exit")
for n in range(2000):
    producer.send_soon(Message("Exit", b"%d" % n))
print(producer.unsent > 0)
if not {kept}:
    del producer
"""


def run(
    namesrv: str, ready: bool, *flags: str, kept: bool = True, **options: Any
) -> subprocess.CompletedProcess[str]:
    program = PROGRAM.format(ready=ready, kept=kept, options=options)
    command = [sys.executable, *flags, "-c", program, namesrv]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("kept", [True, False])
def test_what_send_soon_took_is_sent_when_the_program_ends(server: Running, kept: bool) -> None:
    """Also when nobody has the producer any more."""
    store = server.broker.store
    before = sum(store.queue_range("Exit", queue)[1] for queue in range(4))
    done = run(server.namesrv, True, kept=kept, batch_delay=5.0)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "True\n")
    sent = sum(store.queue_range("Exit", queue)[1] for queue in range(4))
    assert sent == before + 2000


@pytest.mark.parametrize("silent", [True, False], ids=["silent", "refused"])
def test_what_is_not_sent_is_counted(silent: bool) -> None:
    """The time-out of a send is longer than what the end of a program waits for."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        if silent:
            nobody.listen()
        done = run(f"127.0.0.1:{nobody.getsockname()[1]}", False)
    assert done.returncode == 0
    text = "pyrmq.sync.Producer of group exits was not closed when the program ended: 2000 messages"
    assert done.stderr.count(text) == 2, "in the log, and as a warning"


def test_the_end_of_the_program_warns(server: Running) -> None:
    done = run(server.namesrv, True, "-W", "always::ResourceWarning")
    warning = "ResourceWarning: pyrmq.sync.Producer of group exits was not closed"
    assert done.stderr.count(warning) == 1


def clients(portal: Any, namesrv: str) -> list[Any]:
    listener = portal.TransactionalProducer.__init__.__module__ and Both()
    return [
        portal.Producer("pg", namesrv=namesrv),
        portal.TransactionalProducer("pg", listener, namesrv=namesrv),
        portal.PushConsumer("cg", {"Exit": "*"}, namesrv=namesrv),
        portal.LitePullConsumer("lg", {"Exit": "*"}, namesrv=namesrv),
        portal.Admin(namesrv),
    ]


class Both:
    def execute_local_transaction(self, message: Any, arg: Any) -> None: ...

    def check_local_transaction(self, message: Any) -> None: ...


@pytest.fixture
def gone(server: Running) -> Any:
    """Ends what a test has left open."""
    yield
    for opened in list(SHARED._open):
        opened.leave().result()
        SHARED.release(opened)


@pytest.mark.parametrize("n", range(5))
@pytest.mark.parametrize("portal", [sync, aio])
def test_who_is_thrown_away_open_warns(server: Running, portal: Any, n: int, gone: Any) -> None:
    client = clients(portal, server.namesrv)[n]
    name = type(client).__name__

    if portal is sync:
        client.__enter__()
    else:
        asyncio.run(client.__aenter__())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del client
        gc.collect()
    found = [str(w.message) for w in caught if w.category is ResourceWarning]
    (text,) = [text for text in found if "was not closed" in text]
    assert f"{portal.__name__}.{name}" in text


@pytest.mark.parametrize("n", range(5))
def test_who_was_closed_or_never_opened_does_not(server: Running, n: int) -> None:
    closed, never = (clients(sync, server.namesrv)[n] for _ in range(2))
    with closed:
        pass
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del closed, never
        gc.collect()
